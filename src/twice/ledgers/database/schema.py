"""The ledger's tables, for SQLite and PostgreSQL alike. A change here needs a migration; a test compares them.

    attempts ─┬─ slices    what one attempt learnt of each slice
              ├─ inputs    the leaves each slice was computed from
              ├─ audits    the results of its audits
              └─ leases    who may work on a (task, slice) now: a row exists only while it is held
    runs                   the last publish of each (task, slice), and its last attempt
    backfills ── batches   a frozen plan, cut into what one worker claims
              ├─ planned   the slices of each batch, why they are in it, how they ended
              └─ needs     which batches must be done before another

The owner of a row is in its `task`: a key of `twice_tasks` (own_rows.py), never a bare name.
The fence is the attempts' own key: the database hands it out in growing order and never twice.
Names begin with `twice_`, since a team's PostgreSQL database may hold other tables.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from twice.core.ledger.record import AttemptState

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

HEAD = "0014"
"""The newest migration. Known without loading alembic, which most openings do not need."""
VERSION_TABLE = "twice_schema"

# In the order of AttemptState, as the partial indices of the migrations name them.
OPEN_STATES = tuple(state.value for state in AttemptState if state.open)
LEFTOVER_STATES = tuple(state.value for state in AttemptState if state.may_leave_files)


class UtcTime(TypeDecorator[datetime]):
    """An instant, stored as UTC. SQLite knows no times: there it is text of one width, which sorts as it should
    and is read three times as fast as SQLAlchemy's own form."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else DateTime(timezone=True))

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], object]:
        return _utc_text if dialect.name == "sqlite" else _utc

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:  # noqa: ARG002
        return _from_text if dialect.name == "sqlite" else _utc


def _utc(value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return None if value is None else value.astimezone(timezone.utc)


def _utc_text(value: datetime | None) -> str | None:
    instant = _utc(value)
    return None if instant is None else instant.isoformat(timespec="microseconds")


def _from_text(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


# SQLite counts up by itself only in a column whose type is exactly INTEGER.
_FENCE = BigInteger().with_variant(Integer, "sqlite")

# Compared by bytes everywhere, as Python sorts them: claims lock slices in this order.
NAME = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()
attempts = Table(
    "twice_attempts",
    metadata,
    Column("fence", _FENCE, autoincrement=True),
    Column("id", Text, nullable=False),
    Column("task", NAME, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("started", UtcTime, nullable=False),
    Column("finished", UtcTime),
    Column("why", Text),
    Column("version", BigInteger),
    Column("notes", Text),
    Column("seconds", Text),
    Column("error", Text),
    Column("discarded", Boolean, nullable=False),
    Column("changes", Text),
    Column("retry_at", UtcTime),
    PrimaryKeyConstraint("fence", name="twice_attempts_pk"),
    UniqueConstraint("id", name="twice_attempts_id"),
    # Empty ids pass every NULL check.
    CheckConstraint("id <> '' AND task <> ''", name="twice_attempts_named"),
    # A deleted row's fence is never given out again.
    sqlite_autoincrement=True,
)

slices = Table(
    "twice_slices",
    metadata,
    Column("fence", _FENCE, ForeignKey(attempts.c.fence, name="twice_slices_attempt")),
    Column("label", NAME, nullable=False),
    # The attempt's task once more: the history of one slice is then one walk down an index.
    Column("task", NAME, nullable=False),
    Column("expected", BigInteger),
    Column("code_hash", Text),
    Column("inputs_hash", Text),
    Column("rows", BigInteger),
    Column("fingerprint", Text),
    Column("aim", BigInteger),
    PrimaryKeyConstraint("fence", "label", name="twice_slices_pk"),
    CheckConstraint("label <> ''", name="twice_slices_named"),
    sqlite_with_rowid=False,
)

leases = Table(
    "twice_leases",
    metadata,
    Column("task", NAME, nullable=False),
    Column("label", NAME, nullable=False),
    # NULL only inside the claiming transaction: the fence is handed out after the slices are locked.
    Column("fence", _FENCE, ForeignKey(attempts.c.fence, name="twice_leases_attempt")),
    Column("until", UtcTime, nullable=False),
    PrimaryKeyConstraint("task", "label", name="twice_leases_pk"),
    sqlite_with_rowid=False,
)

runs = Table(
    "twice_runs",
    metadata,
    Column("task", NAME, nullable=False),
    Column("label", NAME, nullable=False),
    Column("generation", BigInteger, nullable=False),
    # No foreign key: a target may name an attempt that a lost ledger has taken with it.
    Column("attempt", Text),
    Column("code_hash", Text),
    Column("inputs_hash", Text),
    Column("rows", BigInteger),
    Column("fingerprint", Text),
    Column("version", BigInteger),
    Column("published", UtcTime),
    Column("last_fence", _FENCE, ForeignKey(attempts.c.fence, name="twice_runs_last_attempt")),
    Column("quarantined", UtcTime),
    PrimaryKeyConstraint("task", "label", name="twice_runs_pk"),
    CheckConstraint("generation >= 0", name="twice_runs_generation"),
    # Rows are stored in the order of their key: a status over all of them is one walk.
    sqlite_with_rowid=False,
)

inputs = Table(
    "twice_inputs",
    metadata,
    Column("fence", _FENCE, ForeignKey(attempts.c.fence, name="twice_inputs_attempt")),
    Column("position", Integer, nullable=False),
    Column("label", NAME, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("identity", Text),
    Column("version", BigInteger),
    PrimaryKeyConstraint("fence", "position", name="twice_inputs_pk"),
)

audits = Table(
    "twice_audits",
    metadata,
    Column("fence", _FENCE, ForeignKey(attempts.c.fence, name="twice_audits_attempt")),
    Column("position", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("message", Text, nullable=False),
    PrimaryKeyConstraint("fence", "position", name="twice_audits_pk"),
)

backfills = Table(
    "twice_backfills",
    metadata,
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("request", Text, nullable=False),
    Column("notes", Text, nullable=False),
    # The task that was asked for; the name is a key too. NULL: from before, its owner is not known yet.
    Column("task", NAME),
    PrimaryKeyConstraint("name", name="twice_backfills_pk"),
    CheckConstraint("name <> ''", name="twice_backfills_named"),
)

batches = Table(
    "twice_batches",
    metadata,
    Column("backfill", Text, ForeignKey(backfills.c.name, name="twice_batches_backfill")),
    Column("number", Integer, nullable=False),
    Column("task", NAME, nullable=False),
    Column("kind", Text, nullable=False),
    # In which order they are taken. A batch that was split leaves its position to its parts.
    Column("position", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("holder", Text),
    Column("until", UtcTime),
    Column("error", Text),
    Column("seconds", Float),
    # Attempts with a higher fence began after its first claim, when all that it needs was done.
    Column("after_fence", BigInteger),
    PrimaryKeyConstraint("backfill", "number", name="twice_batches_pk"),
)

planned = Table(
    "twice_planned",
    metadata,
    Column("backfill", Text, ForeignKey(backfills.c.name, name="twice_planned_backfill")),
    Column("task", NAME, nullable=False),
    Column("label", NAME, nullable=False),
    Column("number", Integer, nullable=False),
    Column("standing", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("outcome", Text),
    Column("rows", BigInteger),
    Column("fingerprint", Text),
    Column("comparison", Text),
    PrimaryKeyConstraint("backfill", "task", "label", name="twice_planned_pk"),
    CheckConstraint("label <> ''", name="twice_planned_named"),
)

needs = Table(
    "twice_needs",
    metadata,
    Column("backfill", Text, ForeignKey(backfills.c.name, name="twice_needs_backfill")),
    Column("number", Integer, nullable=False),
    Column("needed", Integer, nullable=False),
    PrimaryKeyConstraint("backfill", "number", "needed", name="twice_needs_pk"),
)


def listed(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


# As text, in the index (`whole_schema`) and in the query: SQLite uses such an index only where it sees the same words.
IS_OPEN = text(f"state IN ({listed(OPEN_STATES)})")
IS_QUARANTINED = text("quarantined IS NOT NULL")
HAS_LEFTOVERS = text(f"NOT discarded AND state IN ({listed(LEFTOVER_STATES)})")

Index("twice_attempts_by_task", attempts.c.task, attempts.c.fence)
Index("twice_runs_by_last_fence", runs.c.last_fence)
Index("twice_runs_by_attempt", runs.c.attempt)
Index("twice_runs_by_version", runs.c.task, runs.c.version)
Index("twice_slices_by_label", slices.c.task, slices.c.label, slices.c.fence)
Index("twice_inputs_by_label", inputs.c.fence, inputs.c.label)
Index("twice_leases_by_fence", leases.c.fence)
Index("twice_batches_by_state", batches.c.backfill, batches.c.state, batches.c.position)
Index("twice_batches_by_task", batches.c.backfill, batches.c.task)
Index("twice_planned_by_batch", planned.c.backfill, planned.c.number)
Index("twice_needs_by_needed", needs.c.backfill, needs.c.needed)


def insert_or(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that takes a rule for conflicts; both dialects spell it the same."""
    return insert_in(connection.dialect.name, table)


@cache
def insert_in(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """The same, for a statement that is kept. Kept itself: the columns of `excluded` are long in the making."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
