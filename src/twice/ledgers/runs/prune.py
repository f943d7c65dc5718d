"""Letting go of what is old. What a later run, plan, status or effect is decided by stays, however old it is.

Of attempts stay: the one that published a slice as it is now (with its inputs: they show whether it is stale), the last
of each slice, the newest that found a slice unchanged by the versions of its tables, the first that froze the end of
what the next run publishes, the one that moved a mark furthest, those that are open or may have left staged files, and
every decision of a person (a mark that was reset, a table that was taken over, what was accepted). What code was made
of stays as long as a published slice or an attempt that stays is of it. Of effects stays for
ever that they were sent; their text, the receiver's reply and the steps of their lives go. Of a backfill that restates
stays the name: begun again by it, it must find itself done.

Every function is one transaction of the caller's. Dying between two leaves the rest to the next call.
"""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Select, and_, case, delete, func, or_, select, update

from twice.core.backfill.result import BackfillState, BatchState
from twice.core.ledger.outbox import EffectState, Needs
from twice.core.ledger.record import TABLE, AttemptState
from twice.core.table.mark import LAST_OF_KINDS
from twice.ledgers.database.effect_tables import effect_events, effects
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import (
    HAS_LEFTOVERS,
    IS_OPEN,
    LEFTOVER_STATES,
    OPEN_STATES,
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
from twice.ledgers.runs.code_parts import code_parts, drop_parts, is_unused
from twice.ledgers.runs.proofs import proofs

PART = 500
"""So many rows go at once: others must not wait for long."""

_SETTLED = [state.value for state in EffectState if state.needs is Needs.NOTHING]
_OVER = [state.value for state in BackfillState if state.over]
_BY_A_PERSON = ("reset", "takeover", "accept", "rebuild", "adopt")


def prune_attempts(connection: Connection, own: OwnRows, before: datetime) -> int:
    """The oldest of those that nothing is decided by any more. 0: there is none left."""
    gone = (
        select(attempts.c.fence)
        .where(own.of_any_table(attempts.c.task), attempts.c.finished < before)
        .where(attempts.c.state.not_in(OPEN_STATES), attempts.c.kind.not_in(_BY_A_PERSON))
        .where(or_(attempts.c.discarded, attempts.c.state.not_in(LEFTOVER_STATES)))
        .where(attempts.c.id.not_in(select(runs.c.attempt).where(runs.c.attempt.is_not(None))))
        .where(attempts.c.fence.not_in(select(runs.c.last_fence).where(runs.c.last_fence.is_not(None))))
        .where(attempts.c.fence.not_in(_confirming()), attempts.c.fence.not_in(_freezing()))
        .where(attempts.c.fence.not_in(_furthest()))
        .order_by(attempts.c.fence)
        .limit(PART)
    )
    fences = list(connection.execute(gone).scalars())
    if fences:
        for table in (slices, inputs, audits, leases):
            connection.execute(delete(table).where(table.c.fence.in_(fences)))
        connection.execute(delete(attempts).where(attempts.c.fence.in_(fences)))
    return len(fences)


def prune_code_parts(connection: Connection, own: OwnRows, _: datetime) -> int:
    """However new: what nothing on record is of, no later reason is made from."""
    return drop_parts(connection, and_(own.of_any_table(code_parts.c.task), is_unused()), PART)


def prune_effects(connection: Connection, own: OwnRows, before: datetime) -> int:
    """Those of attempts that can land no more: they hold no occasion. One that was given up with staged rows left may
    still land, and its effects are sent then."""
    may_land = select(attempts.c.id).where(or_(IS_OPEN, HAS_LEFTOVERS))
    written_off = (effects.c.state == EffectState.CANCELLED.value, effects.c.changed < before)
    ids = _ids(connection, own, *written_off, effects.c.attempt.not_in(may_land))
    if ids:
        connection.execute(delete(effect_events).where(effect_events.c.effect.in_(ids)))
        connection.execute(delete(effects).where(effects.c.id.in_(ids)))
    return len(ids)


def prune_texts(connection: Connection, own: OwnRows, before: datetime) -> int:
    """The text that was sent, and the steps it took: that it was sent stays."""
    settled = (effects.c.state.in_(_SETTLED), effects.c.changed < before)
    stories = select(effect_events.c.effect)
    ids = _ids(connection, own, *settled, effects.c.id.in_(stories))
    if ids:
        connection.execute(delete(effect_events).where(effect_events.c.effect.in_(ids)))
        connection.execute(update(effects).where(effects.c.id.in_(ids)).values(message=None, receipt=None))
    return len(ids)


def prune_backfills(connection: Connection, own: OwnRows, before: datetime) -> int:
    """Those that are over and computed only what was missing or stale: done again, they find nothing to do."""
    over = (backfills.c.state.in_(_OVER), backfills.c.created < before)
    found = connection.execute(
        select(backfills.c.name, backfills.c.request).where(own.of_any_table(backfills.c.task), *over)
    ).all()
    names = [row.name for row in found if not json.loads(row.request).get("restate")][:PART]
    if names:
        for table in (needs, planned, batches):
            connection.execute(delete(table).where(table.c.backfill.in_(names)))
        connection.execute(delete(backfills).where(backfills.c.name.in_(names)))
    return len(names)


def prune_plans(connection: Connection, own: OwnRows, before: datetime) -> int:
    """Of those that restate, and have done all of it: by its name one finds itself done, and needs no plan for that."""
    undone = select(batches.c.backfill).where(batches.c.state != BatchState.DONE.value)
    over = (backfills.c.state == BackfillState.FINISHED.value, backfills.c.created < before)
    some = select(batches.c.backfill)
    done = select(backfills.c.name).where(own.of_any_table(backfills.c.task), *over)
    chosen = done.where(backfills.c.name.in_(some), backfills.c.name.not_in(undone)).limit(PART)
    names = list(connection.execute(chosen).scalars())
    if names:
        for table in (needs, planned, batches):
            connection.execute(delete(table).where(table.c.backfill.in_(names)))
    return len(names)


def prune_proofs(connection: Connection, own: OwnRows, before: datetime) -> int:
    """All but the newest of each task."""
    newest = select(func.max(proofs.c.id)).group_by(proofs.c.task)
    old = and_(own.of_any_table(proofs.c.task), proofs.c.at < before, proofs.c.id.not_in(newest))
    return connection.execute(delete(proofs).where(old)).rowcount


def _ids(connection: Connection, own: OwnRows, *where: ColumnElement[bool]) -> list[int]:
    mine = select(effects.c.id).where(own.of_any_table(effects.c.task), *where)
    return list(connection.execute(mine.order_by(effects.c.id).limit(PART)).scalars())


def _confirming() -> Select[int]:
    """By slice and table, the newest attempt that found the slice right up to a version (`facts.read_inputs`); and the
    newest that has recorded for an adopted slice what it is made of beside its tables."""
    table = case((inputs.c.kind == TABLE, inputs.c.name), else_="")
    return (
        select(func.max(inputs.c.fence))
        .join(attempts, attempts.c.fence == inputs.c.fence)
        .where(attempts.c.state == AttemptState.UNCHANGED.value, attempts.c.kind.not_in(_BY_A_PERSON))
        .group_by(attempts.c.task, inputs.c.label, table)
    )


def _freezing() -> Select[int]:
    """By slice, the first attempt that aimed beyond what is published now (`history.frozen_aim`): a retry keeps to
    where it ended."""
    now = and_(runs.c.task == slices.c.task, runs.c.label == slices.c.label, runs.c.generation == slices.c.expected)
    return (
        select(func.min(slices.c.fence))
        .join(runs, now)
        .where(slices.c.aim > slices.c.expected)
        .group_by(slices.c.task, slices.c.label)
    )


def _furthest() -> Select[int]:
    """By slice and kind of mark, a publish that came furthest (`history.furthest_aim`): a mark that was set back, also
    later, corrects what is before that."""
    published = attempts.c.state == AttemptState.PUBLISHED.value
    kind = case(*((slices.c.aim <= last, position) for position, last in enumerate(LAST_OF_KINDS)))
    of_slice = slices.join(attempts, attempts.c.fence == slices.c.fence)
    furthest = (
        select(slices.c.task, slices.c.label, func.max(slices.c.aim).label("aim"))
        .select_from(of_slice)
        .where(published)
        .group_by(slices.c.task, slices.c.label, kind)
        .subquery()
    )
    there = (slices.c[name] == furthest.c[name] for name in ("task", "label", "aim"))
    return (
        select(func.max(slices.c.fence))
        .select_from(of_slice.join(furthest, and_(*there)))
        .where(published)
        .group_by(slices.c.task, slices.c.label, slices.c.aim)
    )
