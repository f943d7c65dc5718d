"""A renamed task keeps its history (`formerly`)."""

from __future__ import annotations

from sqlalchemy import Connection, Select, Table, delete, or_, select, update

from twice.ledgers.effect_tables import COUNTS, effects
from twice.ledgers.proofs import proofs
from twice.ledgers.schema import attempts, batches, leases, planned, runs, slices
from twice.ledgers.transitions import move_forward


def rename(connection: Connection, old: str, new: str) -> None:
    """Everything of `old` becomes `new`'s. Where both know a slice, the further generation and the later lease
    stay. A second call finds nothing to move. Dying here has moved everything or nothing."""
    if not new or old == new:
        raise ValueError(f"a task is not renamed from {old!r} to {new!r}")
    # Attempts, then leases, then runs: the order in which every other transaction locks them.
    _move(connection, attempts, old, new)
    _move(connection, slices, old, new)
    _settle_leases(connection, old, new)
    _move(connection, leases, old, new)
    _settle_runs(connection, old, new)
    _move(connection, runs, old, new)
    _move(connection, batches, old, new)
    _move(connection, planned, old, new)
    _settle_effects(connection, old, new)
    _move(connection, effects, old, new)
    _move(connection, proofs, old, new)


def _settle_runs(connection: Connection, old: str, new: str) -> None:
    both = connection.execute(
        select(runs).where(runs.c.task == old, runs.c.label.in_(_labels(runs, new))),
    ).all()
    move_forward(connection, [{**row._mapping, "task": new} for row in both])
    for row in both:
        of_new = (runs.c.task == new, runs.c.label == row.label)
        if row.last_fence is not None:
            older = or_(runs.c.last_fence.is_(None), runs.c.last_fence < row.last_fence)
            connection.execute(update(runs).where(*of_new, older).values(last_fence=row.last_fence))
        connection.execute(delete(runs).where(runs.c.task == old, runs.c.label == row.label))


def _settle_leases(connection: Connection, old: str, new: str) -> None:
    both = connection.execute(
        select(leases).where(leases.c.task == old, leases.c.label.in_(_labels(leases, new)))
    ).all()
    for row in both:
        of_new = (leases.c.task == new, leases.c.label == row.label)
        connection.execute(
            update(leases).where(*of_new, leases.c.until < row.until).values(fence=row.fence, until=row.until)
        )
        connection.execute(delete(leases).where(leases.c.task == old, leases.c.label == row.label))


def _settle_effects(connection: Connection, old: str, new: str) -> None:
    """An occasion that both have spoken of: both stay on record, the old one under an occasion of its own."""
    other = effects.alias("other")
    names = ("label", "name", "occasion")
    said_by_new = (
        select(other.c.id)
        .where(other.c.task == new, other.c.state.not_in(("prepared", "cancelled")))
        .where(*(other.c[name] == effects.c[name] for name in names))
    )
    connection.execute(
        update(effects)
        .where(effects.c.task == old, COUNTS, said_by_new.exists())
        .values(occasion=effects.c.occasion + f"@{old}")
    )


def _move(connection: Connection, table: Table, old: str, new: str) -> None:
    connection.execute(update(table).where(table.c.task == old).values(task=new))


def _labels(table: Table, task: str) -> Select[str]:
    return select(table.c.label).where(table.c.task == task)
