"""Deleting all that a ledger has of an environment, in parts.

The order matters to whoever dies in between, and to a run of that environment that comes before the rest is gone. What
is published is asked of the tables, so plans, runs and attempts go first; that an effect was sent is in no table, so it
goes last: while it is there, no effect is sent again. The names of the tasks go when nothing has them any more.

Every function is one transaction of the caller's, for these keys of tasks. Dying between two leaves the rest to the
next call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, delete, exists, select

from twice.ledgers.database.effect_tables import effect_events, effects
from twice.ledgers.database.own_rows import tasks
from twice.ledgers.database.schema import (
    attempts,
    audits,
    backfills,
    batches,
    inputs,
    leases,
    needs,
    planned,
    runs,
    slices,
)
from twice.ledgers.runs.code_parts import code_parts, drop_parts
from twice.ledgers.runs.looks import drop_looks
from twice.ledgers.runs.proofs import proofs
from twice.ledgers.runs.prune_attempts import PART


def drop_backfills(connection: Connection, keys: Sequence[str]) -> int:
    """Whole plans, also where a batch is of another environment's task: a plan is of the task that was asked for."""
    chosen = select(backfills.c.name).where(backfills.c.task.in_(keys)).order_by(backfills.c.name).limit(PART)
    names = list(connection.execute(chosen).scalars())
    if names:
        for table in (needs, planned, batches):
            connection.execute(delete(table).where(table.c.backfill.in_(names)))
        connection.execute(delete(backfills).where(backfills.c.name.in_(names)))
    return len(names)


def drop_proofs(connection: Connection, keys: Sequence[str]) -> int:
    some = select(proofs.c.id).where(proofs.c.task.in_(keys)).limit(PART)
    return connection.execute(delete(proofs).where(proofs.c.id.in_(some))).rowcount


def drop_runs(connection: Connection, keys: Sequence[str]) -> int:
    """Before the attempts: a run names its last one."""
    first = connection.execute(select(runs.c.task).where(runs.c.task.in_(keys)).limit(1)).scalar_one_or_none()
    labels = select(runs.c.label).where(runs.c.task == first).order_by(runs.c.label).limit(PART)
    some = list(connection.execute(labels).scalars())
    return connection.execute(delete(runs).where(runs.c.task == first, runs.c.label.in_(some))).rowcount


def drop_attempts(connection: Connection, keys: Sequence[str]) -> int:
    """By their fences: one that claims in this moment has another, and keeps all that is its own. With the runs of
    those that began and ended since the runs went."""
    some = select(attempts.c.fence).where(attempts.c.task.in_(keys)).order_by(attempts.c.fence).limit(PART)
    fences = list(connection.execute(some.with_for_update()).scalars())
    if fences:
        connection.execute(delete(runs).where(runs.c.last_fence.in_(fences)))
        for table in (slices, inputs, audits, leases):
            connection.execute(delete(table).where(table.c.fence.in_(fences)))
        connection.execute(delete(attempts).where(attempts.c.fence.in_(fences)))
    return len(fences)


def drop_code_parts(connection: Connection, keys: Sequence[str]) -> int:
    return drop_parts(connection, code_parts.c.task.in_(keys), PART)


def drop_effects(connection: Connection, keys: Sequence[str]) -> int:
    some = select(effects.c.id).where(effects.c.task.in_(keys)).order_by(effects.c.id).limit(PART)
    ids = list(connection.execute(some).scalars())
    if ids:
        connection.execute(delete(effect_events).where(effect_events.c.effect.in_(ids)))
        connection.execute(delete(effects).where(effects.c.id.in_(ids)))
    return len(ids)


def drop_tasks(connection: Connection, keys: Sequence[str]) -> int:
    """Not one that is claimed with in this moment: its attempt must stay its environment's."""
    claimed = exists().where(attempts.c.task == tasks.c.key)
    connection.execute(delete(tasks).where(tasks.c.key.in_(keys), ~claimed))
    return 0


STEPS: tuple[Callable[[Connection, Sequence[str]], int], ...] = (
    drop_backfills,
    drop_proofs,
    drop_looks,
    drop_runs,
    drop_attempts,
    drop_code_parts,
    drop_effects,
    drop_tasks,
)
"""Each is called until it finds nothing."""
