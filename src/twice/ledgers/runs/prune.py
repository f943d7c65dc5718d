"""Letting go of what is old. What a later run, plan, status or effect is decided by stays, however old it is.

Of attempts stay: the one that published a slice as it is now (with its inputs: they show whether it is stale), the last
of each slice, the newest that found a slice unchanged by the versions of its tables, the first that froze the end of
what the next run publishes, the one that moved a mark furthest, those that are open or may have left staged files, and
every decision of a person (a mark that was reset, a table that was taken over, what was accepted). What code was made
of stays as long as a published slice or an attempt that stays is of it. Of effects stays for
ever that they were sent; their text, the receiver's reply and the steps of their lives go. Of a backfill that restates
stays the name: begun again by it, it must find itself done.

The attempts themselves are in prune_attempts.py. Every function is one transaction of the caller's. Dying between two
leaves the rest to the next call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, or_, select, update

from twice.core.backfill.result import BackfillState, BatchState
from twice.core.ledger.outbox import EffectState, Needs
from twice.ledgers.database.effect_tables import effect_events, effects
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import HAS_LEFTOVERS, IS_OPEN, attempts, backfills, batches, needs, planned
from twice.ledgers.runs.code_parts import code_parts, drop_parts, is_unused
from twice.ledgers.runs.proofs import proofs
from twice.ledgers.runs.prune_attempts import PART, next_of

_SETTLED = [state.value for state in EffectState if state.needs is Needs.NOTHING]
_OVER = [state.value for state in BackfillState if state.over]


def prune_code_parts(connection: Connection, own: OwnRows, _: datetime) -> int:
    """However new: what nothing on record is of, no later reason is made from."""
    return drop_parts(connection, and_(own.of_any_table(code_parts.c.task), is_unused()), PART)


def prune_effects(connection: Connection, own: OwnRows, before: datetime) -> int:
    """Those of attempts that can land no more: they hold no occasion. One that was given up with staged rows left may
    still land, and its effects are sent then."""
    may_land = exists().where(attempts.c.id == effects.c.attempt, or_(IS_OPEN, HAS_LEFTOVERS))
    written_off = (effects.c.state == EffectState.CANCELLED.value, effects.c.changed < before)
    ids = _ids(connection, own, *written_off, ~may_land)
    if ids:
        connection.execute(delete(effect_events).where(effect_events.c.effect.in_(ids)))
        connection.execute(delete(effects).where(effects.c.id.in_(ids)))
    return len(ids)


@dataclass
class TextWalk:
    """One prune's way through the effects: after which one it goes on."""

    after: int = 0

    def part(self, connection: Connection, own: OwnRows, before: datetime) -> tuple[int, int | None]:
        """The text that was sent, and the steps it took: that it was sent stays. Of the next effects: how many it were,
        and the last one that was looked at; None at the end."""
        settled = (effects.c.state.in_(_SETTLED), effects.c.changed < before)
        mine = (own.of_any_table(effects.c.task), exists().where(effect_events.c.effect == effects.c.id))
        ids, last = next_of(connection, effects.c.id, self.after, *mine, *settled)
        if ids:
            connection.execute(delete(effect_events).where(effect_events.c.effect.in_(ids)))
            connection.execute(update(effects).where(effects.c.id.in_(ids)).values(message=None, receipt=None))
        return len(ids), last


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
