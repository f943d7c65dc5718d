"""One optimistic transaction of Delta's: writing files that no version refers to, and committing them with tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from twice.core.names.spark import quoted
from twice.core.slice import Owners, Slice
from twice.targets.delta.log.condition import condition
from twice.targets.delta.log.history import CommitHistory
from twice.targets.delta.log.jvm import PACKAGE, as_list, text_literal
from twice.targets.delta.log.key_range import KeyRange
from twice.targets.delta.log.snapshot import table_at, tokens_in
from twice.targets.delta.log.table import Table, table_of
from twice.targets.grain import slice_value


class Transaction:
    """One optimistic transaction. It is used to write files, or to commit, never for both."""

    def __init__(self, session: SparkSession, log: Any, transaction: Any, history: CommitHistory) -> None:
        self._session = session
        self._jvm: Any = session._jvm
        self._log = log
        self._transaction = transaction
        self._history = history
        self._became = False

    @property
    def version(self) -> int:
        """That this transaction began on; -1 where there is no table."""
        return int(self._transaction.readVersion())

    @property
    def table(self) -> Table | None:
        """As it was when the transaction began."""
        return table_at(self._transaction.snapshot())

    @property
    def metadata(self) -> str:
        """The table's (the log's JSON), as this transaction finds or leaves it."""
        return str(self._transaction.metadata().json())

    def become(self, metadata: str) -> Table:
        """Make of the table what this metadata (the log's JSON) says: files are then written for it, and the commit
        carries it. On a missing table the commit makes it. The table as it then is. Nothing is written yet."""
        action = getattr(getattr(self._jvm, f"{PACKAGE}.actions.Action$"), "MODULE$").fromJson(metadata)
        self._transaction.updateMetadata(action, False)
        self._became = True
        return table_of(self.version, self._transaction.protocol().json(), self.metadata)

    def generations(self, token_names: Iterable[str]) -> dict[str, int]:
        """The recorded generations. Asking registers each: a commit that moves one meanwhile is a conflict."""
        recorded = self._history.tokens_at(self.version) if self.version >= 0 else {}
        if recorded is None:
            recorded = tokens_in(self._session, self._transaction.snapshot(), list(token_names))
        found = {}
        for token_name in token_names:
            self._transaction.readTxn().addOne(token_name)  # the other half of what txnVersion does
            found[token_name] = recorded.get(token_name, 0)
        return found

    def tokens(self, prefix: str) -> dict[str, int]:
        """Every recorded token whose name begins so. Asking registers none."""
        recorded = self._history.tokens_at(self.version) if self.version >= 0 else {}
        if recorded is None:
            recorded = tokens_in(self._session, self._transaction.snapshot(), (), prefix)
        return {name: generation for name, generation in recorded.items() if name.startswith(prefix)}

    def read_whole_table(self) -> None:
        """Register that the result was computed from this table: any change meanwhile is a conflict."""
        self._transaction.readWholeTable()

    def write(self, frame: DataFrame, checks: Mapping[str, str]) -> list[Any]:
        """Write data files that no version refers to; the added files. Rows that break one of the named conditions
        fail the job.

        Dying here leaves files under the prefix of `named`.
        """
        parser = self._session._jsparkSession.sessionState().sqlParser()
        check = getattr(self._jvm, f"{PACKAGE}.constraints.Constraints$Check")
        wanted = [check(name, parser.parseExpression(text)) for name, text in checks.items()]
        return as_list(self._jvm, self._transaction.writeFiles(frame._jdf, self._seq(wanted)))

    def rows(self, table: Table, keys: KeyRange | None = None) -> DataFrame:
        """The rows at the very version this transaction began on, or those in a range of keys, with the
        columns of `table`: those that it does not have yet are NULL."""
        held = self._held()
        if self.version < 0:
            rows = self.frame([])
        elif held is None:
            reader = self._session.read.format("delta").option("versionAsOf", self.version)
            rows = _widened(reader.load(str(self._log.dataPath())), table)
        else:  # without Delta's job over the log
            files = held[1]
            if keys is not None:
                files = [held[1].apply(at) for at, file in enumerate(held[0]) if not keys.misses(file)]
            rows = _widened(self.frame(files), table)
        return rows if keys is None else rows.where(keys.condition)

    def files_at(self, paths: Iterable[str]) -> list[Any]:
        """The files of this version with these names (the last part of their paths). The caller verifies them."""
        names = {path.rpartition("/")[2] for path in paths}
        held = self._held()
        if held is not None:
            return [held[1].apply(at) for at, file in enumerate(held[0]) if file["path"].rpartition("/")[2] in names]
        chosen = f"substring_index(path, '/', -1) IN ({', '.join(text_literal(name) for name in sorted(names))})"
        return list(self._transaction.snapshot().allFiles().filter(chosen).collectAsList()) if names else []

    def all_files(self) -> list[Any]:
        """Every file of the version that this transaction began on, with its statistics. Registers none as read."""
        return list(self._transaction.snapshot().allFiles().collectAsList())

    def frame(self, files: Any) -> DataFrame:
        """The rows of some files of this table (a list, or Delta's own), whether or not a version refers to them."""
        nothing = self._jvm.scala.Option.empty()
        given = self._seq(files) if isinstance(files, (list, tuple)) else files
        rows = self._log.createDataFrame(self._as_it_will_be(), given, False, nothing)
        return DataFrame(rows, self._session)

    def _as_it_will_be(self) -> Any:
        """The snapshot, or what the commit makes of it: it says which columns files are read with."""
        if not self._became:
            return self._transaction.snapshot()
        some, nothing = self._jvm.scala.Option.apply, self._jvm.scala.Option.empty()
        made = getattr(self._jvm, f"{PACKAGE}.DummySnapshot")
        transaction = self._transaction
        return made(self._log.logPath(), self._log, transaction.metadata(), nothing, some(transaction.protocol()))

    def files_in(self, slices: Sequence[Slice] | None, column: str | None, type_: str | None) -> list[Any]:
        """The files that hold the slices, registered as read; all files without slices. The caller verifies them."""
        if self.version < 0:
            return []
        wanted = None if slices is None else condition(slices, column)
        if slices is None or wanted is None or column is None or type_ is None:
            return as_list(self._jvm, self._transaction.filterFiles())
        # Resolved against a column of the right name and type: of an unresolved `a.b` Delta would take `a` for a
        # struct, call the predicate not partition-only and hand back every file.
        empty = self._session.sql(f"SELECT CAST(NULL AS {type_}) AS {quoted(column)}").where(wanted)
        predicates = self._seq([empty._jdf.queryExecution().analyzed().condition()])
        files = self._listed(slices, column, type_)
        if files is None:
            return as_list(self._jvm, self._transaction.filterFiles(predicates, False))
        # The two other halves of filterFiles, without its job over the log: a second for a small table.
        self._transaction.trackReadPredicates(predicates, False, True)
        self._transaction.trackFilesRead(self._seq(files))
        return files

    def _listed(self, slices: Sequence[Slice], column: str, type_: str) -> list[Any] | None:
        """The same files from the list beside the commit; None if there is none, or Delta has another."""
        held = self._held()
        if held is None:
            return None
        found, owners = [], Owners(slices)
        for at, file in enumerate(held[0]):
            if owners.of(slice_value(file["partitionValues"].get(column), type_)) is not None:
                found.append(held[1].apply(at))
                if str(held[1].apply(at).path()) != file["path"]:
                    return None
        return found

    def _held(self) -> tuple[list[dict[str, Any]], Any] | None:
        """The list of this version's files beside its commit, as we read it and as Delta has it; None if there is
        none, or the two are not of one length."""
        if self.version < 0:
            return None
        listed = self._history.files_at(self.version)
        checksum = self._transaction.snapshot().checksumOpt()
        if listed is None or checksum.isEmpty() or checksum.get().allFiles().isEmpty():
            return None
        held = checksum.get().allFiles().get()
        return (listed, held) if held.size() == len(listed) else None

    def commit(
        self, added: Sequence[Any], removed: Sequence[Any], tokens: Mapping[str, int], predicate: str | None, note: str
    ) -> int:
        """Data and tokens in one commit; its version. Dying here has published all of it or nothing."""
        token = getattr(self._jvm, f"{PACKAGE}.actions.SetTransaction")
        now = self._jvm.java.lang.System.currentTimeMillis()
        stamp = self._jvm.scala.Option.apply(now)
        actions = [*(file.removeWithTimestamp(now, True) for file in removed), *added]
        actions += [token(token_name, generation, stamp) for token_name, generation in tokens.items()]
        overwriting = bool(removed) or predicate is not None
        return int(self._transaction.commit(self._seq(actions), self._operation(overwriting, predicate, note)))

    def _operation(self, overwriting: bool, predicate: str | None, note: str) -> Any:
        some, nothing = self._jvm.scala.Option.apply, self._jvm.scala.Option.empty()
        name = f"{PACKAGE}.DeltaOperations$Write"
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        wanted = loader.loadClass(name).getConstructors()[0].getParameterCount()
        modes = self._jvm.org.apache.spark.sql.SaveMode
        given = [
            modes.Overwrite if overwriting else modes.Append,
            nothing,
            nothing if predicate is None else some(predicate),
            some(note),
        ]
        return getattr(self._jvm, name)(*operation_arguments(given, int(wanted), nothing))

    def _seq(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))


def operation_arguments(given: list[Any], wanted: int, nothing: Any) -> list[Any]:
    """`DeltaOperations.Write` has grown from 4 to 7 to 9 parameters; the first four have kept their meaning."""
    if wanted not in (4, 7, 9):
        raise NotImplementedError(f"DeltaOperations.Write takes {wanted} parameters in this version of Delta")
    return [*given, *[nothing] * (wanted - len(given))]


def _widened(rows: DataFrame, table: Table) -> DataFrame:
    there = {name.lower() for name in rows.columns}
    new = {each.name: lit(None).cast(each.type) for each in table.shape.columns if each.name.lower() not in there}
    return rows.withColumns(new) if new else rows
