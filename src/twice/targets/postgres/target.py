"""PostgreSQL as a target: the promises of `core.ports.Target`, kept by one transaction."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from twice.config import ConnectionSettings
from twice.core.closed import assert_never
from twice.core.failure.failpoints import Point, hit
from twice.core.ports import (
    Column,
    Frame,
    Landed,
    Lost,
    PreparedTable,
    Shape,
    Staged,
    Target,
)
from twice.core.schema_change import drift, more_digits, ways_out
from twice.core.slice import Slice
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, ReplaceRows, ReplaceTable, UpsertRows, WritePlan
from twice.errors import InputMissing, ResultRefused, TableChanged, TwiceError
from twice.targets.postgres import state
from twice.targets.postgres.frames.plain import Frames
from twice.targets.postgres.frames.spark import SparkFrames
from twice.targets.postgres.looks import Looks
from twice.targets.postgres.read.query import Query
from twice.targets.postgres.read.reading import file_of
from twice.targets.postgres.read.snapshot import Snapshots
from twice.targets.postgres.server.errors import explained, sqlstate_of
from twice.targets.postgres.server.names import check_columns, relation_of
from twice.targets.postgres.server.server import Connection, Server, limits_of
from twice.targets.postgres.table import Intent, Table, find, intend
from twice.targets.postgres.write.exchange.dependents import refuse_dependents
from twice.targets.postgres.write.exchange.exchange import drop_side, stage_table
from twice.targets.postgres.write.measure import analyse, count, deduplicate, duplicates
from twice.targets.postgres.write.publish import publish
from twice.targets.postgres.write.stage import Stage, check_whole, drop, loading_of, open_stage, seal
from twice.targets.schema import check_fit, check_names
from twice.targets.side import refuse_other_names


class PostgresTarget(Looks):
    """One server, and the kind of frames that come and go. PostgreSQL keeps no older versions of a table: a version
    is how many commits twice has made to it, and only the present one can be read."""

    def __init__(self, server: Server, frames: Frames, snapshots: Snapshots | None = None) -> None:
        super().__init__(server)
        self._frames = frames
        self._snapshots = snapshots or Snapshots(server)

    def prepare(self, table: TableName, shape: Shape, layout: Layout, evolve: bool) -> PreparedTable:
        """Makes our own tables, and of the user's none. Dying here leaves everything as it was."""
        check_names(shape)
        check_columns(shape)
        relation = relation_of(table)
        with self._server.transaction(doing=f"preparing {table}") as connection:
            state.install(connection)
            if evolve:
                self._refuse_new_columns(find(connection, relation), shape)
            into = intend(connection, relation, shape, layout, evolve)
        return PreparedTable(into.table.shape, into.before is not None, into)

    def one_slice_only(self, table: TableName) -> str | None:  # noqa: ARG002 - a transaction takes any number
        return None

    def stage(
        self, table: TableName, frame: Frame | None, plan: WritePlan, attempt: str, *, into: PreparedTable | None = None
    ) -> Staged:
        """Dying here leaves an invisible table of the attempt's own, which `discard` finds by its name."""
        with self._server.transaction(doing=f"staging for {table}") as connection:
            intent = self._as_it_is(connection, table) if into is None else into.handle
            wanted = intent.table.shape.columns
            if frame is not None:
                check_fit(Shape(self._frames.columns(frame)), intent.table.shape)
            if isinstance(plan.write, ReplaceTable):
                return stage_table(self._server, intent, table, plan, attempt)
            stage = open_stage(connection, intent, attempt, plan.compared)
        self._copy(frame, wanted, stage, table)
        hit(Point.IN_STAGE)
        with self._server.transaction(doing=f"checking the stage of {table}") as connection:
            sealed = check_whole(connection, stage)
            analyse(connection, stage)
            rows = count(connection, stage, sealed, plan)
            match plan.write:
                case UpsertRows():
                    gone, ties = deduplicate(connection, stage, sealed, plan.write)
                case ReplaceRows() | AppendRows() | ReplaceTable():
                    gone, ties = 0, 0
                case _:
                    assert_never(plan.write)
            if gone:
                rows = count(connection, stage, sealed - gone, plan)
        return Staged(table, plan, attempt, sealed - gone, rows, (str(stage.relation),), gone, ties, stage)

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:
        """By the server: it takes longer to carry the rows to Spark than to count them."""
        with self._server.transaction(doing=f"checking the stage of {staged.table}") as connection:
            return duplicates(connection, staged.handle, staged.rows, columns)

    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        """Dying here has published all or nothing."""
        if set(expected) != set(staged.plan.compared):
            raise ValueError("a generation is expected of every token of the plan, and of no other")
        return publish(self._server, staged, expected, note)

    def discard(self, table: TableName, attempt: str, slices: Sequence[Slice]) -> int:  # noqa: ARG002
        """A stage that landed is gone with its commit. Dying here leaves the stage to the next call."""
        with self._server.transaction(doing=f"discarding the stage of {table}") as connection:
            return drop(connection, attempt) if state.installed(connection) else 0

    def forget(self, table: TableName, before: datetime) -> int:
        with self._server.transaction(doing=f"tidying up after {table}") as connection:
            held = find(connection, relation_of(table))
            return 0 if held is None or held.entry is None else state.forget(connection, held.entry.id, before)

    def check_exchange(self, table: TableName) -> None:
        with self._server.transaction(doing=f"looking at {table}") as connection:
            refuse_dependents(connection, self._existing(connection, table))

    def drop_side(self, table: TableName, token_name: str) -> None:
        """Dying here has dropped it or not."""
        refuse_other_names(table)
        with self._server.transaction(doing=f"dropping {table}") as connection:
            drop_side(connection, table, token_name)

    def read(self, table: TableName, at: int | Staged | None = None) -> Frame:
        """A table in a snapshot: all parts of it, and reading it again, give the same rows. Only the present version
        can be opened."""
        if isinstance(at, Staged):
            stage: Stage = at.handle
            with self._server.transaction(doing=f"reading the stage of {table}") as connection:
                check_whole(connection, stage)
                row = connection.execute(file_of(stage.relation)).fetchone()
            # Without a lock of the run's: the publish must be able to drop it.
            return self._frames.read(self._server, Query(stage.relation, stage.columns, file=row[0] if row else None))
        try:
            opened = self._snapshots.of(relation_of(table), at)
            if opened is None:
                raise missing(table)
            check_names(opened.table.shape)
            query = Query(opened.table.relation, opened.table.columns, snapshot=opened.snapshot, file=opened.file)
            return self._frames.read(self._server, query)
        finally:
            if not self._frames.lazy:
                self._snapshots.close()

    def _copy(self, frame: Frame | None, wanted: Sequence[Column], stage: Stage, table: TableName) -> None:
        loading = loading_of(self._server, stage)
        try:
            if frame is None:
                seal(loading, ())
            else:
                self._frames.copy(frame, wanted, loading)
        except TwiceError:
            raise
        except Exception as error:
            if sqlstate_of(error) is None:
                raise
            raise explained(error, self._server.name, f"staging for {table}") from error

    def _refuse_new_columns(self, held: Table | None, shape: Shape) -> None:
        """To add a column or to change one, the server needs the table for itself: a run that is reading it would wait
        for its own end."""
        found = None if held is None else drift(shape, held.given({each.name.lower() for each in shape.columns}).shape)
        if held is None or not found or any(way.how != "evolve" for way in ways_out(found, more_digits)):
            return  # nothing to change, or nothing that a run changes
        if not self._snapshots.hold(held):
            return
        names = ", ".join(column.name for column in (*found.new, *(ours for ours, _ in found.retyped)))
        raise ResultRefused(
            f"this run reads {held.relation} itself, so it cannot add the column {names} to it"
            if found.only_new
            else f"this run reads {held.relation} itself, so it cannot change {names} in it",
            fix="Do it before the run: ALTER TABLE … ADD COLUMN …, or ALTER COLUMN … TYPE ….",
        )

    def _as_it_is(self, connection: Connection, table: TableName) -> Intent:
        held = self._existing(connection, table)
        if held.entry is None:
            raise TableChanged(f"{table} was recreated after it was looked at", fix="Run the task again.")
        return Intent(held, held, Layout())

    def _existing(self, connection: Connection, table: TableName) -> Table:
        held = find(connection, relation_of(table))
        if held is None:
            raise missing(table)
        return held


def missing(table: TableName) -> InputMissing:
    return InputMissing(f"there is no table {table.name}", now="", fix="Run the task that writes it.")


class PostgresSystem:
    def __init__(self, name: str, settings: ConnectionSettings) -> None:
        self._server = Server(name, settings.url.reveal(), limits_of(settings))
        self._snapshots: weakref.WeakKeyDictionary[Any, Snapshots] = weakref.WeakKeyDictionary()

    def target(self, session: Any) -> Target:
        if session not in self._snapshots:
            self._snapshots[session] = Snapshots(self._server)
            # A session that nobody releases by name (a preview in a notebook) closes its snapshots when it is gone.
            weakref.finalize(session, self._snapshots[session].close)
        return PostgresTarget(self._server, SparkFrames(session, self._server.limits.tasks), self._snapshots[session])

    def release(self, session: Any) -> None:
        snapshots = self._snapshots.pop(session, None)
        if snapshots is not None:
            snapshots.close()
