"""A table's log as one session sees it: the newest version, its tokens, and where a transaction begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from twice.core.ports import Published
from twice.core.table.owner import OURS, Ownership, ownership
from twice.targets.delta.log.history import CommitHistory
from twice.targets.delta.log.jvm import PACKAGE, text_literal
from twice.targets.delta.log.snapshot import recorded_in, table_at, tokens_in
from twice.targets.delta.log.table import Table
from twice.targets.delta.log.transaction import Transaction


class Log:
    """A table's log as the run's session sees it. A missing table has a log without versions."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self.session = session
        self._jvm: Any = session._jvm
        self._history = CommitHistory(session, path)
        self._log = getattr(self._jvm, f"{PACKAGE}.DeltaLog").forTable(session._jsparkSession, path)

    def table(self) -> Table | None:
        """The newest version, read afresh."""
        return table_at(self._fresh())

    def generations(self, token_names: Sequence[str]) -> tuple[int | None, dict[str, int]]:
        """The newest version and the recorded generations, read afresh."""
        version, recorded = self._recorded(self._fresh(), token_names)
        return version, {token_name: recorded.get(token_name, 0) for token_name in token_names}

    def published(self, token_names: Sequence[str]) -> Published:
        """The same, and whose tokens there are: from the same file beside the commit, or by the same job."""
        snapshot = self._fresh()
        version, recorded = self._recorded(snapshot, token_names, OURS)
        owners = ownership(recorded) if token_names else Ownership()
        id_ = None if version is None else str(snapshot.metadata().id())
        return Published(version, {token_name: recorded.get(token_name, 0) for token_name in token_names}, owners, id_)

    def _recorded(self, snapshot: Any, token_names: Sequence[str], *prefixes: str) -> tuple[int | None, dict[str, int]]:
        """At least these tokens and those whose names begin so; none where none is asked for."""
        if snapshot.version() < 0:
            return None, {}
        version = int(snapshot.version())
        recorded = self._history.tokens_at(version) if token_names else {}
        if recorded is None:
            recorded = tokens_in(self.session, snapshot, token_names, *prefixes)
        return version, recorded

    def tokens(self, prefix: str) -> dict[str, int]:
        """Every token whose name begins so, read afresh."""
        snapshot = self._fresh()
        if snapshot.version() < 0:
            return {}
        recorded = self._history.tokens_at(int(snapshot.version()))
        if recorded is None:
            state = DataFrame(snapshot.stateDF(), self.session)
            recorded = recorded_in(state.where(state["txn.appId"].startswith(prefix)))
        return {
            token_name: generation
            for token_name, generation in sorted(recorded.items())
            if token_name.startswith(prefix)
        }

    def begin(self, read_at: int | None = None) -> Transaction:
        """On the newest version, or on an older one whose rows the result was computed from."""
        nothing = self._jvm.scala.Option.empty()
        at = nothing
        if read_at is not None:
            at = self._jvm.scala.Option.apply(self._log.getSnapshotAt(read_at, nothing, nothing, False))
        transaction = self._log.startTransaction(nothing, at)
        return Transaction(self.session, self._log, transaction, self._history)

    def action(self, text: str) -> Any:
        """One of Delta's own actions, from the JSON that the log writes it in."""
        return getattr(getattr(self._jvm, f"{PACKAGE}.actions.Action$"), "MODULE$").fromJson(text)

    @property
    def name(self) -> str:
        """The table's folder as a plan's scans name it."""
        return str(self._log.dataPath().toString())

    def partition_values(self, column: str) -> list[str | None]:
        """Every distinct value of the slice column (by its name in the log), from the log alone."""
        files = DataFrame(self._fresh().allFiles().toDF(), self.session)
        rows = files.selectExpr(f"partitionValues[{text_literal(column)}] AS value").distinct().collect()
        return [row.value for row in rows]

    def paths(self, text: str) -> list[str]:
        """The files of the newest version with this text in their paths."""
        files = DataFrame(self._fresh().allFiles().toDF(), self.session)
        return [str(row.path) for row in files.where(files["path"].contains(text)).select("path").collect()]

    def _fresh(self) -> Any:
        nothing = self._jvm.scala.Option.empty()
        return self._log.update(False, nothing, nothing)
