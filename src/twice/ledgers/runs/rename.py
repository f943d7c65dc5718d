"""Records that change their key: to the first name of a renamed task, or to an environment that was given a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, exists, func, or_, select, true, update

from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import TaskTable, backfill_key, key_at, name_of
from twice.ledgers.database.effect_tables import COUNTS, UNCOUNTED_STATES, effect_events, effects
from twice.ledgers.database.own_rows import OwnRows, tasks
from twice.ledgers.database.schema import (
    OPEN_STATES,
    attempts,
    backfills,
    batches,
    insert_or,
    leases,
    needs,
    planned,
    runs,
    slices,
)
from twice.ledgers.runs.code_parts import code_parts
from twice.ledgers.runs.looks import move_looks
from twice.ledgers.runs.proofs import proofs
from twice.ledgers.runs.publishes import move_forward

Rows = Mapping[Table, ColumnElement[bool]]


def rename(connection: Connection, own: OwnRows, old: str, new: str, here: TaskTable) -> None:
    """Everything of `old` becomes `new`'s: what it wrote into the table of now, and into any other one. A second call
    finds nothing to move. `here`: the table of now. Dying here has moved everything or nothing."""
    if not new or old == new:
        raise ValueError(f"a task is not renamed from {old!r} to {new!r}")
    known = connection.execute(select(tasks).where(own.of_names(tasks.c.key, (old,)))).all()
    for environment, table in sorted(
        {(here.environment, here.table), *((row.environment, row.target) for row in known)}
    ):
        written = TaskTable(environment, table)
        _move_records(connection, own, key_at(own.owner.project, written, old), new, written)


def register_declared(
    connection: Connection, own: OwnRows, unknown: Collection[str], before: Mapping[str, tuple[str, TaskTable]]
) -> None:
    """See `Ledger._register_declared`. `before`: keys of the same tables from before their environment had a name, each
    with the name it is of and its table of now. The names stay: a task that was renamed finds its records by them."""
    own.register(connection, unknown)
    for key, (name, table) in sorted(before.items(), key=lambda each: each[0]):
        _move_records(connection, own, key, name, table)


def gather(connection: Connection, own: OwnRows, task: str) -> None:
    """The records of its table that are kept under a later name of a renamed task become those of its first name, by
    which its tokens go. Only of its table: what had that name elsewhere may be another task that a branch dropped.
    Dying here has moved everything or nothing."""
    for key in own.later_keys(task):
        _move_records(connection, own, key, own.owner.names_of(task)[0], own.owner.table_of(task))


def _move_records(connection: Connection, own: OwnRows, old: str, name: str, table: TaskTable) -> None:
    """From a key to that of a task and its table."""
    own.register_at(connection, name, table)
    new = key_at(own.owner.project, table, name)
    move_key(connection, old, new)
    _forget_key(connection, old, new)


def _forget_key(connection: Connection, old: str, new: str) -> None:
    """A key that no rows have any more. If its table was asked which old records are its own, it was asked."""
    row = delete(tasks).where(tasks.c.key == old).returning(tasks.c.assigned)
    assigned = connection.execute(row).scalar_one_or_none()
    if assigned is not None:
        both = func.coalesce(tasks.c.assigned, 0) + assigned
        connection.execute(update(tasks).where(tasks.c.key == new).values(assigned=both))


def move_key(connection: Connection, old: str, new: str, rows: Rows | None = None) -> None:
    """The rows of one key become another's. Where both know a slice, the further generation and the later lease
    stay. `rows`: of which tables, and which rows of each."""
    if rows is None:
        _drop_unknown(connection, old, new)
        _drop_unknown(connection, new, old)
    moving = dict.fromkeys(_TABLES, true()) if rows is None else rows
    for table in _TABLES:
        if table in moving:
            which = and_(table.c.task == old, moving[table])
            if table in _SETTLING:
                _SETTLING[table](connection, old, new, which)
            connection.execute(update(table).where(which).values(task=new))
    if rows is None:
        move_looks(connection, old, new)
        _move_backfills(connection, old, new)


def _drop_unknown(connection: Connection, key: str, other: str) -> None:
    """What one key could not know of a publish (`effects.remember_unknown`), the other does: it made it, or is about
    to learn that it did. Its own effect of it counts."""
    made_by_other = (
        exists()
        .where(slices.c.task == other, slices.c.label == effects.c.label, attempts.c.fence == slices.c.fence)
        .where(func.coalesce(slices.c.aim, slices.c.expected + 1) == effects.c.generation)
        .where(attempts.c.state.in_((*OPEN_STATES, AttemptState.PUBLISHED.value)))
    )
    unknown = (effects.c.task == key, effects.c.state == EffectState.UNKNOWN.value, effects.c.attempt.is_(None))
    gone = select(effects.c.id).where(*unknown, made_by_other)
    connection.execute(delete(effect_events).where(effect_events.c.effect.in_(gone)))
    connection.execute(delete(effects).where(effects.c.id.in_(gone)))


def _move_backfills(connection: Connection, old: str, new: str) -> None:
    for name in connection.execute(select(backfills.c.name).where(backfills.c.task == old)).scalars().all():
        move_backfill(connection, name, backfill_key(name_of(name), new), new)


def move_backfill(connection: Connection, old: str, new: str, task: str) -> None:
    """Under another key, which is its name in three other tables, and of that task. One of that key that is there
    already keeps its own."""
    if old == new:
        connection.execute(update(backfills).where(backfills.c.name == old).values(task=task))
        return
    row = connection.execute(select(backfills).where(backfills.c.name == old)).one()
    put = insert_or(connection, backfills).on_conflict_do_nothing().returning(backfills.c.name)
    if connection.execute(put, [{**row._mapping, "name": new, "task": task}]).one_or_none() is None:
        return
    for table in (batches, planned, needs):
        connection.execute(update(table).where(table.c.backfill == old).values(backfill=new))
    connection.execute(delete(backfills).where(backfills.c.name == old))


def _settle_runs(connection: Connection, old: str, new: str, which: ColumnElement[bool]) -> None:
    both = connection.execute(select(runs).where(which, runs.c.label.in_(_labels(runs, new)))).all()
    move_forward(connection, [{**row._mapping, "task": new} for row in both])
    for row in both:
        of_new = (runs.c.task == new, runs.c.label == row.label)
        if row.last_fence is not None:
            older = or_(runs.c.last_fence.is_(None), runs.c.last_fence < row.last_fence)
            connection.execute(update(runs).where(*of_new, older).values(last_fence=row.last_fence))
        connection.execute(delete(runs).where(runs.c.task == old, runs.c.label == row.label))


def _settle_leases(connection: Connection, old: str, new: str, which: ColumnElement[bool]) -> None:
    both = connection.execute(select(leases).where(which, leases.c.label.in_(_labels(leases, new)))).all()
    for row in both:
        of_new = (leases.c.task == new, leases.c.label == row.label)
        connection.execute(
            update(leases).where(*of_new, leases.c.until < row.until).values(fence=row.fence, until=row.until)
        )
        connection.execute(delete(leases).where(leases.c.task == old, leases.c.label == row.label))


def _settle_effects(connection: Connection, old: str, new: str, which: ColumnElement[bool]) -> None:
    """An occasion that counts for both: both stay on record, the old one under an occasion of its own."""
    other = effects.alias("other")
    names = ("label", "name", "occasion")
    sent_by_new = (
        select(other.c.id)
        .where(other.c.task == new, other.c.state.not_in(UNCOUNTED_STATES))
        .where(*(other.c[name] == effects.c[name] for name in names))
    )
    connection.execute(
        update(effects).where(which, COUNTS, sent_by_new.exists()).values(occasion=effects.c.occasion + f"@{old}")
    )


def _settle_code_parts(connection: Connection, _: str, new: str, which: ColumnElement[bool]) -> None:
    """One hash has the same parts under both."""
    of_new = select(code_parts.c.code_hash).where(code_parts.c.task == new)
    connection.execute(delete(code_parts).where(which, code_parts.c.code_hash.in_(of_new)))


def _labels(table: Table, task: str) -> Select[str]:
    return select(table.c.label).where(table.c.task == task)


# Attempts, then leases, then runs: the order in which every other transaction locks them.
_TABLES = (attempts, slices, leases, runs, batches, planned, effects, proofs, code_parts)
_SETTLING = {
    leases: _settle_leases,
    runs: _settle_runs,
    effects: _settle_effects,
    code_parts: _settle_code_parts,
}
