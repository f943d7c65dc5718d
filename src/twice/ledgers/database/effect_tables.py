"""The outbox's tables. A change here needs a migration, as in schema.py.

    effects ── effect_events    every step of an effect's life: who, when, why

An occasion (task, slice, name, occasion) is prepared by as many attempts as try it, and counted once: the partial
unique index lets one of them past `prepared`.
"""

from __future__ import annotations

from functools import cache

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
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

from twice.core.ledger.outbox import EffectState
from twice.ledgers.database.schema import (
    HAS_LEFTOVERS,
    IS_OPEN,
    IS_QUARANTINED,
    NAME,
    UtcTime,
    attempts,
    listed,
    metadata,
    runs,
)

# SQLite counts up by itself only in a column whose type is exactly INTEGER.
_ID = BigInteger().with_variant(Integer, "sqlite")

effects = Table(
    "twice_effects",
    metadata,
    Column("id", _ID, autoincrement=True),
    Column("key", Text, nullable=False),
    Column("task", NAME, nullable=False),
    Column("label", NAME, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("occasion", Text, nullable=False),
    # No foreign key: what is unknown after a lost ledger has no attempt.
    Column("attempt", Text),
    Column("generation", BigInteger, nullable=False),
    Column("fingerprint", Text),
    Column("state", Text, nullable=False),
    Column("keyed", Boolean, nullable=False),
    Column("remembers", BigInteger, nullable=False),
    Column("message", Text),
    Column("fence", Integer, nullable=False),
    Column("sender", Text),
    Column("until", UtcTime),
    Column("due", UtcTime),
    Column("doubt_since", UtcTime),
    Column("receipt", Text),
    Column("why", Text),
    Column("prepared", UtcTime, nullable=False),
    Column("changed", UtcTime, nullable=False),
    PrimaryKeyConstraint("id", name="twice_effects_pk"),
    UniqueConstraint("attempt", "label", "name", name="twice_effects_attempt"),
    CheckConstraint("key <> '' AND task <> '' AND label <> '' AND name <> ''", name="twice_effects_named"),
    sqlite_autoincrement=True,
)

effect_events = Table(
    "twice_effect_events",
    metadata,
    Column("id", _ID, autoincrement=True),
    Column("effect", _ID, ForeignKey(effects.c.id, name="twice_effect_events_effect"), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("state", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    PrimaryKeyConstraint("id", name="twice_effect_events_pk"),
)

UNCOUNTED_STATES = tuple(state.value for state in EffectState if not state.counts)
COUNTS = text(f"state NOT IN ({listed(UNCOUNTED_STATES)})")

Index("twice_effects_due", effects.c.state, effects.c.due, effects.c.id)
Index("twice_effects_by_state", effects.c.state, effects.c.id, effects.c.task)
Index("twice_effect_events_of", effect_events.c.effect, effect_events.c.id)


@cache
def whole_schema() -> MetaData:
    """The ledger's tables with the indices over some of a table's rows, for migrations and the tests of them. To
    describe such an index SQLAlchemy loads the dialects of both databases, and a ledger has one."""
    for name, where, columns in (
        ("twice_attempts_open", IS_OPEN, (attempts.c.fence,)),
        ("twice_attempts_leftover", HAS_LEFTOVERS, (attempts.c.fence,)),
        # Of one task: SQLite would rather walk through all its attempts than through the open ones of every task.
        ("twice_attempts_open_of_task", IS_OPEN, (attempts.c.task, attempts.c.fence)),
        ("twice_attempts_leftover_of_task", HAS_LEFTOVERS, (attempts.c.task, attempts.c.fence)),
        ("twice_runs_quarantined", IS_QUARANTINED, (runs.c.task, runs.c.label)),
    ):
        Index(name, *columns, sqlite_where=where, postgresql_where=where)
    occasion = (effects.c.task, effects.c.label, effects.c.name, effects.c.occasion)
    Index("twice_effects_said", *occasion, unique=True, sqlite_where=COUNTS, postgresql_where=COUNTS)
    return metadata
