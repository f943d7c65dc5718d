"""Delta as a target: the promises of `core.ports.Target`, kept by the internal or the public path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_changes
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from twice.core.closed import assert_never
from twice.core.ports import Foreign, Held, Landed, Lost, PreparedTable, Published, Shape, Staged, Touched
from twice.core.slice import Slice
from twice.core.table.rebuild import not_ours
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, ReplaceRows, ReplaceTable, UpsertRows, WritePlan, may_delete
from twice.errors import DeclarationError, InputMissing
from twice.targets.active_session import as_active_session
from twice.targets.delta import create, leftovers
from twice.targets.delta.create import check_free
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.internal import append, exchange, replace, upsert
from twice.targets.delta.lock import Waiting, locked
from twice.targets.delta.log.changes import foreign_changes, touched_rows
from twice.targets.delta.log.history import CommitHistory
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.table import Intent, Table, why_public
from twice.targets.delta.public import copy, merge
from twice.targets.delta.public import replace as public
from twice.targets.delta.write.publish import Publishing, Stage
from twice.targets.instruments import Instruments
from twice.targets.schema import check_names
from twice.targets.side import refuse_other_names

# What a run's own session must not do behind its back, and what the manifest and the look need.
_CONF = {
    "spark.databricks.delta.autoCompact.enabled": "false",
    "spark.databricks.delta.optimizeWrite.enabled": "false",
    "spark.databricks.delta.stats.collect": "true",
    # A slice of a clustered table is found by a column that is no partition.
    "spark.databricks.delta.replaceWhere.dataColumns.enabled": "true",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "true",
    # So many tokens are kept beside each commit, where a look finds them without a Spark job (decision 0002).
    "spark.databricks.delta.setTransactionsInCrc.maxAllowed": "5000",
}
# Finding its input empty, Spark would drop the node that counts the rows, and nothing would be reported.
_EXCLUDED = "spark.sql.adaptive.optimizer.excludedRules"
_DROPS_COUNTS = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
_SWITCHED_OFF = "the internal path is switched off"
_ATTEMPT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class DeltaTarget:
    """Bound to one run's session (`spark.newSession()`): the session's settings are changed.

    `locate` gives a table's folder. `internal=False` takes the public path always. `waiting`: what is done while
    another commits on a local file system (None: a word now and then).
    """

    def __init__(
        self,
        session: SparkSession,
        locate: Callable[[TableName], str],
        instruments: Instruments,
        *,
        internal: bool = True,
        waiting: Waiting | None = None,
    ) -> None:
        self._session = session
        self._locate = locate
        self._instruments = instruments
        self._internal = internal
        self._waiting = waiting
        for name, value in _CONF.items():
            session.conf.set(name, value)
        excluded = session.conf.get(_EXCLUDED, "") or ""
        if _DROPS_COUNTS not in excluded:
            session.conf.set(_EXCLUDED, ",".join(filter(None, [excluded, _DROPS_COUNTS])))

    def prepare(self, table: TableName, shape: Shape, layout: Layout, evolve: bool) -> PreparedTable:
        """Only looks. Dying here leaves everything as it was."""
        check_names(shape)
        path = self._locate(table)
        with as_active_session(self._session):
            log = Log(self._session, path)
            held = log.table()
            folder = self._table_handle(table).local
            if held is None and folder is not None:
                check_free(table.name, folder, table.name.count("."))
            into = create.intend(log, held, shape, layout, evolve)
            create.check(self._session, table.name, path, into, layout)
            return PreparedTable(into.table.shape, held is not None, into)

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        with as_active_session(self._session):
            return Log(self._session, self._locate(table)).published(token_names)

    def tokens(self, table: TableName, prefix: str) -> dict[str, Held]:
        path = self._locate(table)
        with as_active_session(self._session):
            recorded = Log(self._session, path).tokens(prefix)
            wrote = CommitHistory(self._session, path).notes() if recorded else {}
            nothing = (None, None)
            return {
                token_name: Held(held, *wrote.get((token_name, held), nothing)) for token_name, held in recorded.items()
            }

    def provenance(
        self, table: TableName, token_name: str, generation: int, at: int | None = None
    ) -> CommitNote | None:
        path = self._locate(table)
        with as_active_session(self._session):
            history = CommitHistory(self._session, path)
            found = None if at is None else history.at(at, token_name, generation)
            if found is None:
                newest, _ = Log(self._session, path).generations(())
                found = None if newest is None else history.find(token_name, generation, newest)
            return None if found is None else with_changes(found[1], version=found[0])

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        path = self._locate(table)
        with as_active_session(self._session):
            held = Log(self._session, path).table()
            return () if held is None else foreign_changes(CommitHistory(self._session, path), held, since, slices)

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        path = self._locate(table)
        with as_active_session(self._session):
            log = Log(self._session, path)
            held = log.table()
            return (
                None
                if held is None
                else touched_rows(CommitHistory(self._session, path), log.name, held, since, column)
            )

    def one_slice_only(self, table: TableName) -> str | None:
        if not self._internal:
            return _SWITCHED_OFF
        with as_active_session(self._session):
            held = Log(self._session, self._locate(table)).table()
            return None if held is None else why_public(held)

    def stage(
        self,
        table: TableName,
        frame: DataFrame | None,
        plan: WritePlan,
        attempt: str,
        *,
        into: PreparedTable | None = None,
    ) -> Staged:
        """Dying here leaves files named by the attempt that no reader sees; `discard` finds them."""
        if not _ATTEMPT.fullmatch(attempt):
            raise ValueError(f"{attempt!r} cannot be part of a file's name")
        with as_active_session(self._session):
            intent = self._as_it_is(table) if into is None else into.handle
            if isinstance(plan.write, ReplaceTable):
                side = self._table_handle(TableName(plan.write.side, table.format))
                return exchange.stage(self._table_handle(table), side, intent.table, plan, attempt)
            return self._stage(self._table_handle(table), intent, frame, plan, attempt)

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:  # noqa: ARG002 - Spark counts files
        return None

    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        """Dying here has published all or nothing."""
        if set(expected) != set(staged.plan.compared):
            raise ValueError("a generation is expected of every token of the plan, and of no other")
        stage: Stage = staged.handle
        with as_active_session(self._session):
            return stage.publish(Publishing(self._table_handle(staged.table), staged, expected, note))

    def discard(self, table: TableName, attempt: str, slices: Sequence[Slice]) -> int:
        """Dying here leaves the rest to the next call."""
        path = self._locate(table)
        with as_active_session(self._session):
            log = Log(self._session, path)
            # Where no table is, the lock's own file would be a trace: it is taken only if there is something to delete.
            if log.table() is None and not leftovers.left(self._session, path, attempt):
                return 0
            with locked(self._session._jvm, path, self._waiting):
                return leftovers.discard(self._session, path, log.table(), attempt, slices)

    def forget(self, table: TableName, before: datetime) -> int:  # noqa: ARG002
        """Delta forgets old commits by itself: `delta.logRetentionDuration`."""
        return 0

    def check_exchange(self, table: TableName) -> None:
        with as_active_session(self._session):
            held, _ = self._existing(table)
            exchange.refuse_exchange(table.name, held, None if self._internal else _SWITCHED_OFF)

    def drop_side(self, table: TableName, token_name: str) -> None:
        """Dying here leaves the table whole, or files without a log, which the next call removes."""
        refuse_other_names(table)
        with as_active_session(self._session):
            handle = self._table_handle(table)
            version, held = handle.log.generations((token_name,))
            if version is None:
                handle.remove_rest()
            elif held[token_name]:
                handle.remove()
            else:
                raise not_ours(table)

    def read(self, table: TableName, at: int | Staged | None = None) -> DataFrame:
        with as_active_session(self._session):
            if isinstance(at, Staged):
                stage: Stage = at.handle
                rows: DataFrame = (
                    copy.rows(self._session, stage) if stage.folder else stage.transaction.frame(stage.files)
                )
                return rows
            held, path = self._existing(table)
            if at is not None and not 0 <= at <= held.version:
                raise InputMissing(f"{table.name} has no version {at}")
            reader = self._session.read.format("delta")
            return (reader if at is None else reader.option("versionAsOf", at)).load(path)

    def _stage(
        self, table_handle: TableHandle, into: Intent, frame: DataFrame | None, plan: WritePlan, attempt: str
    ) -> Staged:
        """By the write verb, and by whether the table allows the internal path."""
        verb = plan.write
        if frame is None:
            if may_delete(verb):
                raise ValueError("no frame is not an empty one: this write would delete rows")
            return append.stage_nothing(table_handle, into, plan, attempt)
        match verb:
            case ReplaceRows():
                stage = public.stage if self._why_public(into.table, by_slice=True) else replace.stage
            case UpsertRows():
                stage = merge.stage if self._why_public(into.table, by_slice=False) else upsert.stage
            case AppendRows():
                self._check_appendable(table_handle.name, into.table)
                stage = append.stage
            case ReplaceTable():
                raise ValueError("a table is exchanged for its side table, not for a frame")
            case _:
                assert_never(verb)
        return stage(table_handle, into, frame, plan, attempt)

    def _why_public(self, held: Table, *, by_slice: bool) -> str | None:
        return why_public(held, by_slice) if self._internal else _SWITCHED_OFF

    def _check_appendable(self, name: TableName, held: Table) -> None:
        """Only the internal path adds rows and moves the token in one commit."""
        why = self._why_public(held, by_slice=False)
        if why is None:
            return
        fix = "Give the rows a key and use insert_new(key), or write to a table without that."
        if not self._internal:
            why = "append_once() needs internal = true in twice.toml (it is false)"
            fix = "Set it, or use insert_new(key)."
        raise DeclarationError(
            f"rows without a key cannot be appended once to {name.name}: {why}", now="The table is unchanged.", fix=fix
        )

    def _table_handle(self, table: TableName) -> TableHandle:
        return TableHandle(self._session, table, self._locate(table), self._instruments, self._waiting)

    def _as_it_is(self, table: TableName) -> Intent:
        held, _ = self._existing(table)
        return Intent(held, held)

    def _existing(self, table: TableName) -> tuple[Table, str]:
        path = self._locate(table)
        held = Log(self._session, path).table()
        if held is None:
            raise InputMissing(f"there is no table {table.name}", now="", fix="Run the task that writes it.")
        return held, path
