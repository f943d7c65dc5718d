"""The ledger in a database: SQLite or PostgreSQL, by URL. What it promises is in core/ports/ledger.py.

A line that breaks in the middle of a method is made again and the method called again (outage.py): each may happen
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, text

from twice.core.ledger.record import Pruned
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.ports.clock import Clock
from twice.ledgers.backfills.backfills import SqlBackfills
from twice.ledgers.database.connect import connect, parse_url
from twice.ledgers.database.migrate import migrate
from twice.ledgers.database.outage import PATIENCE_SECONDS, Outage, retrying_outages
from twice.ledgers.database.own_rows import OwnRows, kept, tasks, unregistered
from twice.ledgers.database.schema import HEAD, metadata
from twice.ledgers.database.transactions import Transactions
from twice.ledgers.effects.outbox import SqlOutbox
from twice.ledgers.runs import prune
from twice.ledgers.runs.attempts import SqlAttempts
from twice.ledgers.runs.claims import SqlClaims
from twice.ledgers.runs.code_parts import SqlCodeParts
from twice.ledgers.runs.environments import SqlEnvironments
from twice.ledgers.runs.facts import SqlInputs
from twice.ledgers.runs.history import SqlAttemptHistory, SqlGenerationHistory, tables_left_open
from twice.ledgers.runs.looks import SqlLooks, prune_looks
from twice.ledgers.runs.proofs import SqlProofs
from twice.ledgers.runs.prune import TextWalk
from twice.ledgers.runs.prune_attempts import AttemptWalk
from twice.ledgers.runs.quarantine import SqlQuarantine
from twice.ledgers.runs.rename import gather, register_declared, rename
from twice.ledgers.runs.run_records import SqlRunRecords
from twice.ledgers.runs.unassigned import SqlUnassigned

FORMAT = 1
UNSHARED = RecordOwner()
"""For a ledger that nobody shares: a proof's, a test's."""


class Ledger(
    SqlClaims,
    SqlAttempts,
    SqlAttemptHistory,
    SqlGenerationHistory,
    SqlRunRecords,
    SqlInputs,
    SqlCodeParts,
    SqlQuarantine,
    SqlProofs,
    SqlLooks,
):
    """Open one with `Ledger.open`. Threads may share it; a forked child must open its own."""

    @classmethod
    def open(
        cls, url: str, clock: Clock | None = None, patience: float = PATIENCE_SECONDS, owner: RecordOwner = UNSHARED
    ) -> Ledger:
        """Open, create or migrate the ledger. Dying here leaves no ledger, an empty one, or a whole one.
        A server that does not answer now is an error at once; one that goes away later is waited for, `patience`
        seconds."""
        engine = connect(parse_url(url))
        try:
            migrate(engine)
            opened = cls(Transactions(engine, OwnRows(owner), clock, Outage(patience)))
            opened._find_kept()
            if opened._register_declared():
                opened._find_kept()
        except BaseException:
            engine.dispose()
            raise
        return opened

    @staticmethod
    def migrate(url: str) -> tuple[str | None, str]:
        """Make the ledger or bring it to this twice's schema, as `open` does; its version before and after."""
        engine = connect(parse_url(url))
        try:
            return migrate(engine), HEAD
        finally:
            engine.dispose()

    def close(self) -> None:
        self._engine.dispose()

    @property
    def owner(self) -> RecordOwner:
        return self._own.owner

    @property
    def backfills(self) -> SqlBackfills:
        return SqlBackfills(self._transactions)

    @property
    def unassigned(self) -> SqlUnassigned:
        return SqlUnassigned(self._transactions)

    @property
    def outbox(self) -> SqlOutbox:
        return SqlOutbox(self._transactions)

    @property
    def environments(self) -> SqlEnvironments:
        return SqlEnvironments(self._transactions)

    def of_environment(self, name: str) -> Ledger:
        """This ledger as another environment of the project sees it, whatever its tasks write now: nothing is moved
        to its name by that. It shares this one's connections."""
        return Ledger(replace(self._transactions, own=OwnRows(RecordOwner(self.owner.project, name))))

    def left_open(self) -> tuple[tuple[str, str, Ledger], ...]:
        found = self._read(lambda connection: tables_left_open(connection, self._own))
        return tuple((task, table.table, self._at(task, table)) for task, table in found)

    def _at(self, task: str, table: TaskTable) -> Ledger:
        owner = replace(self.owner, tables={**self.owner.tables, task: table})
        return Ledger(replace(self._transactions, own=OwnRows(owner)))

    @retrying_outages
    def rename(self, old: str, new: str) -> None:
        """Everything of one name becomes another's. A second call changes nothing."""
        with self._writing() as connection:
            rename(connection, self._own, old, new, self.owner.table_of(new))

    @retrying_outages
    def gather(self, task: str) -> None:
        later = self._own.later_keys(task)
        if not later:
            return
        with self._reading() as connection:
            if connection.execute(select(tasks.c.key).where(tasks.c.key.in_(later)).limit(1)).one_or_none() is None:
                return
        with self._writing() as connection:
            gather(connection, self._own, task)
        kept_first = replace(self.owner.table_of(task), kept_as=self.owner.names_of(task)[0])
        self._keep(replace(self.owner, tables={**self.owner.tables, task: kept_first}))

    def prune(self, before: datetime) -> Pruned:
        gone = Pruned(
            self._to_the_end(AttemptWalk(), before),
            self._until_none(prune.prune_effects, before),
            self._to_the_end(TextWalk(), before),
            self._until_none(prune.prune_backfills, before) + self._until_none(prune.prune_plans, before),
            self._until_none(prune.prune_proofs, before),
            self._until_none(prune_looks, before),
        )
        self._until_none(prune.prune_code_parts, before)  # what the attempts that went had
        return gone

    def _until_none(self, step: Callable[[Connection, OwnRows, datetime], int], before: datetime) -> int:
        def once(_: bool) -> int:
            with self._writing() as connection:
                return step(connection, self._own, before)

        total = 0
        while count := self._outage.outlive(once):
            total += count
        return total

    def _to_the_end(self, walk: AttemptWalk | TextWalk, before: datetime) -> int:
        def once(_: bool) -> tuple[int, int | None]:
            with self._writing() as connection:
                return walk.part(connection, self._own, before)

        total = 0
        while True:
            count, last = self._outage.outlive(once)
            total += count
            if last is None:
                return total
            walk.after = last  # only what is committed is behind it

    def export(self) -> Iterator[dict[str, Any]]:
        """Every row of every table as plain data, in one state of the ledger. The first names its schema."""
        with self._reading() as connection:
            yield from _export(connection)

    @retrying_outages
    def _find_kept(self) -> None:
        """Under which of its names a renamed task's records are. Nothing is moved: who only looks at a branch with
        `formerly=` and goes back finds everything where it was."""
        if any(table.names for table in self.owner.tables.values()):
            with self._reading() as connection:
                self._keep(kept(connection, self.owner))

    def _keep(self, owner: RecordOwner) -> None:
        self._transactions = replace(self._transactions, own=OwnRows(owner))

    @retrying_outages
    def _register_declared(self) -> bool:
        """Register the keys of the declared tasks; take over the records of the keys they had before their environment
        had a name. Whether it wrote: a ledger that has all of it is only read. Dying here leaves the rest to the next
        opening."""
        with self._reading() as connection:
            if not any(unregistered(connection, self.owner)):
                return False
        with self._writing() as connection:
            register_declared(connection, self._own, *unregistered(connection, self.owner))
        return True


def _export(connection: Connection) -> Iterator[dict[str, Any]]:
    """One row at a time, in one state of the ledger, however long the reader takes. Changes nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    yield {"ledger": FORMAT, "schema": HEAD}
    for table in metadata.sorted_tables:
        rows = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=1000)
        for row in connection.execute(rows):
            yield {"table": table.name.removeprefix("twice_"), **row._mapping}
