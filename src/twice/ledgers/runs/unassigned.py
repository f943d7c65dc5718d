"""Records from before the ledger knew environments: their `task` is a bare name.

A table shows which attempts are its own: its commits name them. What no table shows stays where it is, is listed, and
is never sent. Nothing is taken from another owner: only bare names are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, or_, select, true, update

from twice.core.ledger.found import Shown, Unassigned
from twice.core.ledger.outbox import EffectState, Needs
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import MARK, backfill_key
from twice.ledgers.database.effect_tables import COUNTS, effects
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OwnRows, tasks
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import (
    IS_OPEN,
    OPEN_STATES,
    attempts,
    backfills,
    batches,
    leases,
    planned,
    runs,
    slices,
)
from twice.ledgers.database.transactions import Records
from twice.ledgers.effects import transitions as outbox
from twice.ledgers.runs.proofs import proofs
from twice.ledgers.runs.publishes import record_runs
from twice.ledgers.runs.rename import Rows, move_backfill, move_key

_UNSENT = [state.value for state in EffectState if state.needs is Needs.A_SENDER]
_WHY = "from before this ledger knew environments, and no table shows whose it is"


class SqlUnassigned(Records):
    """See `core.ports.UnassignedRecords`. `Ledger.unassigned` gives it. A second call changes nothing more."""

    @retrying_outages
    def waiting(self, names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Of these tasks, each with the names it ever had: whose table was not asked yet which old records are its
        own."""
        with self._reading() as connection:
            old = _old_names(connection, sorted({one for had in names.values() for one in had}))
            asked = select(tasks.c.key).where(tasks.c.assigned.is_not(None))
            done = set(connection.execute(asked).scalars()) if old else set()
        return tuple(n for n, had in names.items() if old.intersection(had) and self._own.key(n) not in done)

    @retrying_outages
    def any(self, names: Sequence[str]) -> bool:
        """Whether there is an old attempt or run of a task that had these names."""
        with self._reading() as connection:
            found = [select(exists().where(table.c.task.in_(names))) for table in (attempts, runs)]
            return any(connection.execute(each).scalar_one() for each in found)

    @retrying_outages
    def unsent(self, names: Sequence[str]) -> tuple[tuple[str, str, int], ...]:
        """Effects that are still to be sent: by which attempt, of which slice and generation."""
        chosen = (effects.c.task.in_(names), effects.c.state.in_(_UNSENT), effects.c.attempt.is_not(None))
        with self._reading() as connection:
            found = connection.execute(select(effects.c.attempt, effects.c.label, effects.c.generation).where(*chosen))
            return tuple((row.attempt, row.label, row.generation) for row in found)

    @retrying_outages
    def take(self, task: str, names: Sequence[str], shown: Shown, *, all_slices: bool) -> int:
        """Give the task what its table shows to be its own; how many attempts.

        `all_slices`: the table was asked for every slice, and the question is not asked again. Then, if nothing hints
        at another environment, the task gets the rest of its old records too. Else what was sent of its slices by
        somebody whom no table shows is of unknown state here, and is not sent again. A slice whose newest commit is of
        an attempt that was the task's before is left out: that attempt was made knowing the old records.
        Dying here has moved everything or nothing.
        """
        key = self._own.key(task)
        with self._writing() as connection:
            now = self._time(connection)
            self._own.register(connection, [task])
            mine = _mine(connection, key, shown.attempts)
            taken = sum(_take_shown(connection, name, key, shown.attempts) for name in names)
            alone = all_slices and not _contested(connection, names, key, shown.generations)
            if not alone:
                held = {at: number for at, number in shown.generations.items() if shown.newest.get(at) not in mine}
                _keep_silent(connection, names, key, held, now)
            if not all_slices:
                return taken
            if alone:
                for name in names:
                    _take_closed(connection, name, key, now)
                _take_backfills(connection, self._own)
            connection.execute(update(tasks).where(tasks.c.key == key).values(assigned=taken))
            return taken

    @retrying_outages
    def take_rest(self, task: str, names: Sequence[str]) -> None:
        """A person decides that all of it is this environment's. What was not sent is of unknown state."""
        with self._writing() as connection:
            self._own.register(connection, [task])
            for name in names:
                _silence(connection, (effects.c.task == name,), self._time(connection))
                move_key(connection, name, self._own.key(task))
            _take_backfills(connection, self._own)

    @retrying_outages
    def listed(self) -> tuple[Unassigned, ...]:
        """Records that no table has shown to be its own, by the task's name of then."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        with self._reading() as connection:
            for table, what in ((attempts, "attempts"), (runs, "slices"), (effects, "effects"), (batches, "batches")):
                for row in connection.execute(_counted(table.c.task)):
                    counts[row.task][what] = row.n
            for row in connection.execute(_counted(effects.c.task).where(effects.c.state.in_(_UNSENT))):
                counts[row.task]["unsent"] = row.n
        return tuple(Unassigned(task, **found) for task, found in sorted(counts.items()))


def _old_names(connection: Connection, names: Sequence[str]) -> set[str]:
    """Those of these names that old records have. Asked by every command: answered by indices alone."""
    old = select(backfills.c.name).where(backfills.c.task.is_(None))
    asked = (
        select(attempts.c.task).where(attempts.c.task.in_(names)),
        select(runs.c.task).where(runs.c.task.in_(names)),
        select(effects.c.task).where(effects.c.task.in_(names), COUNTS),
        select(batches.c.task).where(batches.c.task.in_(names), batches.c.backfill.in_(old)),
    )
    return {task for each in asked for task in connection.execute(each.distinct()).scalars()}


def _counted(task: ColumnElement[str]) -> Select[str, int]:
    return select(task, func.count().label("n")).where(_bare(task)).group_by(task)


def _bare(column: ColumnElement[str]) -> ColumnElement[bool]:
    return ~column.contains(MARK)


def _take_shown(connection: Connection, name: str, key: str, shown: Collection[str]) -> int:
    taken = 0
    for part in in_parts(sorted(shown)):
        named = attempts.alias("named")
        fences = select(named.c.fence).where(named.c.id.in_(part))
        found = connection.execute(fences.where(named.c.task == name)).scalars().all()
        rows: Rows = {
            attempts: attempts.c.id.in_(part),
            slices: slices.c.fence.in_(fences),
            leases: leases.c.fence.in_(fences),
            runs: runs.c.attempt.in_(part),
            effects: effects.c.attempt.in_(part),
        }
        move_key(connection, name, key, rows)
        # Where another environment's publish of the same slice is in the old run.
        record_runs(connection, found)
        taken += len(found)
    return taken


def _mine(connection: Connection, key: str, shown: Collection[str]) -> set[str]:
    """Those of these attempts that are the task's already."""
    found: set[str] = set()
    for part in in_parts(sorted(shown)):
        mine = select(attempts.c.id).where(attempts.c.task == key, attempts.c.id.in_(part))
        found |= set(connection.execute(mine).scalars())
    return found


def _keep_silent(
    connection: Connection, names: Sequence[str], key: str, held: Mapping[str, int], now: datetime
) -> None:
    """The table holds these slices, and old effects were counted for them: by this environment, or by another. Not
    those of a generation that the table does not hold, unless its mark may have been set back, nor those of other rows
    than it holds: these are another's."""
    reset = _reset(connection, [*names, key])
    for part in in_parts(sorted(held)):
        known = select(runs).where(runs.c.task == key, runs.c.label.in_(part))
        present = {row.label: row for row in connection.execute(known)}
        old = select(effects).where(effects.c.task.in_(names), COUNTS, effects.c.label.in_(part))
        for row in connection.execute(old.order_by(effects.c.id)).all():
            reached = row.generation <= held[row.label] or row.label in reset
            if reached and not _of_other_rows(row, present.get(row.label)):
                outbox.remember_old(connection, key, row, _WHY, now)


def _of_other_rows(effect: Any, run: Any) -> bool:
    """Whether an effect that compares rows was sent of other rows than the task published at that generation."""
    if ":" not in effect.occasion or run is None or run.generation != effect.generation:
        return False
    return None not in (effect.fingerprint, run.fingerprint) and effect.fingerprint != run.fingerprint


def _reset(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Slices whose mark was moved by a person: such a mark may come to one value twice, and be before others."""
    resets = select(slices.c.label).join(attempts, attempts.c.fence == slices.c.fence)
    return set(connection.execute(resets.where(attempts.c.task.in_(keys), attempts.c.kind == "reset")).scalars())


def _contested(connection: Connection, names: Sequence[str], key: str, held: Mapping[str, int]) -> bool:
    """Whether another environment may have written old records of these names, too: it was given some, a slice was
    published for the first time twice, or twice at one generation, or at one that this table does not hold. The last
    two do not count for a mark that was set back."""
    others = (tasks.c.name.in_(names), tasks.c.key != key, tasks.c.assigned > 0)
    if connection.execute(select(exists().where(*others))).scalar_one():
        return True
    aim = func.coalesce(slices.c.aim, slices.c.expected + 1)
    published = (
        select(slices.c.label, slices.c.expected, aim.label("aim"), attempts.c.task)
        .join(attempts, attempts.c.fence == slices.c.fence)
        .where(
            attempts.c.task.in_([*names, key]),
            attempts.c.state == AttemptState.PUBLISHED.value,
            slices.c.expected.is_not(None),
        )
    )
    found = connection.execute(published).all()
    if _any_twice(row.label for row in found if row.expected == 0):
        return True
    reset = _reset(connection, [*names, key])
    found = [row for row in found if row.label not in reset]
    if _any_twice((row.label, row.aim) for row in found):
        return True
    old = select(runs.c.label, runs.c.generation).where(runs.c.task.in_(names), runs.c.generation > 0)
    claims = [(row.label, row.aim) for row in found if row.task in names]
    claims += [(row.label, row.generation) for row in connection.execute(old) if row.label not in reset]
    return any(generation > held.get(label, 0) for label, generation in claims)


def _any_twice(values: Iterable[Hashable]) -> bool:
    return any(count > 1 for count in Counter(values).values())


def _take_closed(connection: Connection, name: str, key: str, now: datetime) -> None:
    """Not the open ones: one that may still land belongs to the table it lands in."""
    still = select(attempts.c.fence).where(attempts.c.task == name, IS_OPEN)
    opened = select(attempts.c.id).where(attempts.c.task == name, IS_OPEN)
    of_closed = or_(effects.c.attempt.is_(None), effects.c.attempt.not_in(opened))
    _silence(connection, (effects.c.task == name, of_closed), now)
    rows: Rows = {
        attempts: attempts.c.state.not_in(OPEN_STATES),
        slices: slices.c.fence.not_in(still),
        runs: true(),
        batches: true(),
        planned: true(),
        effects: of_closed,
        proofs: true(),
    }
    # The open attempts are found by their own task, so it is moved last.
    move_key(connection, name, key, {table: rows[table] for table in rows if table is not attempts})
    move_key(connection, name, key, {attempts: rows[attempts]})


def _silence(connection: Connection, which: Sequence[ColumnElement[bool]], now: datetime) -> None:
    chosen = select(effects.c.id).where(*which, effects.c.state.in_(_UNSENT))
    for id_ in connection.execute(chosen).scalars().all():
        outbox.make_unknown(connection, id_, _WHY, now)


def _take_backfills(connection: Connection, own: OwnRows) -> None:
    """Those that have no batch of anybody else's. The first batch is of the task that was asked for."""
    others = exists().where(batches.c.backfill == backfills.c.name, ~own.of(batches.c.task, None))
    first = batches.alias("first")
    unowned = (
        select(backfills.c.name, first.c.task)
        .join(first, first.c.backfill == backfills.c.name)
        .where(backfills.c.task.is_(None), first.c.number == 1, ~others)
    )
    for row in connection.execute(unowned).all():
        move_backfill(connection, row.name, backfill_key(row.name, row.task), row.task)
