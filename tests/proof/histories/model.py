"""What the tables of one side must hold, by rules that fit on a screen.

Where a rule leaves something open (whether an interrupted run landed, which of two equally new rows a target prefers),
the model forks: `after` gives every state that is allowed, and what the tables hold picks among them. A preference,
once seen, holds for the rest of the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypeVar

from .steps import DAYS, EVERY, INCREMENTAL, LANDED, MIRRORED, START, UNFROZEN, AtCall, AtPoint, Delete, How, Row, Run

Key = TypeVar("Key")

NOTHING_LANDED, BOUND_FROZEN, ONE_LANDED, TO_THE_END = 0, 1, 2, 1_000
"""How far a run gets, in stages: each window of an incremental task has two."""

ANY_STAGE = (0, 1, 2, 3, 4, TO_THE_END)


class Undecided(Exception):
    """The model does not know yet which of two rows wins."""

    def __init__(self, pair: frozenset[Row]) -> None:
        super().__init__(pair)
        self.pair = pair


@dataclass
class Model:
    source: list[Row] = field(default_factory=list)
    initial: datetime = START
    tables: dict[str, Counter[Row]] = field(default_factory=lambda: {name: Counter() for name in EVERY})
    changes: Counter[date] = field(default_factory=Counter)
    """How often the source's rows of a day have changed."""
    published: dict[tuple[str, date], int] = field(default_factory=dict)
    """After how many changes of its source."""
    displaced: set[tuple[str, date]] = field(default_factory=set)
    furthest: dict[str, datetime] = field(default_factory=dict)
    marks: dict[str, datetime] = field(default_factory=dict)
    frozen: dict[tuple[str, datetime | None], datetime] = field(default_factory=dict)
    winners: dict[frozenset[Row], Row] = field(default_factory=dict)

    def after(self, step: Run) -> list[Model]:
        """Every state that is allowed once this run has ended, or died."""
        found: list[Model] = []
        for stages in _stages(step):
            found += self._after(step, stages)
        return found

    def arrive(self, rows: Sequence[Row]) -> None:
        self.source += rows
        self.changes.update({row[1] for row in rows})

    def withdraw(self, id_: int) -> None:
        self.changes.update({row[1] for row in self.source if row[0] == id_})
        self.source = [row for row in self.source if row[0] != id_]

    def reset(self, task: str, to: datetime) -> None:
        """A mark that was set forward is a bound for whoever comes from the old one again."""
        if to > self.marks[task]:
            self.frozen.setdefault((task, self.marks[task]), to)
        self._move(task, to)

    def delete(self, step: Delete) -> None:
        table = self.tables[step.task]
        for row in [row for row in table if row[0] == step.id]:
            del table[row]

    def _after(self, step: Run, stages: int) -> list[Model]:
        model = deepcopy(self)
        try:
            if step.task in INCREMENTAL:
                model._catch_up(step.task, stages)
            elif stages >= ONE_LANDED:
                model._publish(step)
        except Undecided as open_:
            return [one for row in open_.pair for one in self._knowing(open_.pair, row)._after(step, stages)]
        return [model]

    def _knowing(self, pair: frozenset[Row], winner: Row) -> Model:
        model = deepcopy(self)
        model.winners[pair] = winner
        return model

    def _publish(self, step: Run) -> None:
        day = DAYS[step.day]
        rows = [row for row in self.source if row[1] == day]
        before = self.published.get((step.task, day))
        same = step.task == "raw" or (before == self.changes[day] and (step.task, day) not in self.displaced)
        if before is not None and same and not step.restate:
            return
        self.published[step.task, day] = self.changes[day]
        table = self.tables[step.task]
        if step.task == "daily":
            self.tables["daily"] = Counter({row: n for row, n in table.items() if row[1] != day}) + Counter(rows)
        elif step.task == "raw":
            table.update(rows)
        elif step.task == "inserted":
            known = {(row[0], row[2]) for row in table}
            batch = self._one_of_each(rows, lambda row: (row[0], row[2]))
            table.update(row for key, row in batch.items() if key not in known)
        elif step.task == MIRRORED:
            self._mirror(day, rows, corrects=step.restate)
        else:
            self._merge(table, rows, corrects=step.restate)

    def _mirror(self, day: date, rows: Sequence[Row], corrects: bool) -> None:
        """What another day holds of a key and is newer stays, and this day is computed again by its next run."""
        table, batch = self.tables[MIRRORED], self._one_of_each(rows, lambda row: row[0])
        held = {row[0]: row for row in table}
        for old in held.values():
            if old[1] == day and old[0] not in batch:
                del table[old]
        self.displaced.discard((MIRRORED, day))
        for id_, row in batch.items():
            old = held.get(id_, row)
            elsewhere = old[1] != day
            if row[2] < old[2]:
                self.displaced |= {(MIRRORED, day)} if elsewhere else set()
                continue
            if row[2] > old[2] or elsewhere or corrects or self._newer(row, old) == row:
                del table[old]
                table[row] = 1

    def _catch_up(self, task: str, stages: int) -> None:
        """A run that finds a bound frozen by a dead attempt takes that first, then the rest."""
        keyed, done = task == "feed", 0
        while self.source:
            mark, newest = self.marks.get(task), max(row[2] for row in self.source)
            low = self.initial if mark is None else mark

            def ahead(bound: datetime, low: datetime = low, first: bool = mark is None) -> bool:
                return bound > low or (keyed and first and bound == low)

            frozen = self.frozen.get((task, mark), newest)
            high = min(newest, frozen) if ahead(frozen) else newest
            if not ahead(high) or done >= stages:
                return
            self.frozen.setdefault((task, mark), high)
            if done + 1 >= stages:
                return
            rows = [row for row in self.source if low <= row[2] < high or (keyed and row[2] == high)]
            again = mark is not None and self.furthest[task] > mark
            self._move(task, high)
            if keyed:
                self._merge(self.tables["feed"], rows, corrects=again)
            else:
                self.tables["log"].update(rows)
            done += 2

    def _move(self, task: str, mark: datetime) -> None:
        self.marks[task] = mark
        self.furthest[task] = max(mark, self.furthest.get(task, mark))

    def _merge(self, table: Counter[Row], rows: Sequence[Row], corrects: bool = False) -> None:
        """`corrects`: what is computed or read again on purpose wins a tie with the table."""
        held = {row[0]: row for row in table}
        for id_, row in self._one_of_each(rows, lambda row: row[0]).items():
            old = held.get(id_)
            if old is not None and row[2] == old[2] and corrects:
                del table[old]
            elif old is not None:
                if self._newer(row, old) == old:
                    continue
                del table[old]
            table[row] = 1

    def _one_of_each(self, rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Row]:
        best: dict[Key, Row] = {}
        for row in rows:
            held = best.get(key(row))
            best[key(row)] = row if held is None else self._newer(row, held)
        return best

    def _newer(self, one: Row, other: Row) -> Row:
        if one == other or one[2] != other[2]:
            return max(one, other, key=lambda row: row[2])
        pair = frozenset((one, other))
        if pair not in self.winners:
            raise Undecided(pair)
        return self.winners[pair]


def _stages(step: Run) -> tuple[int, ...]:
    death = step.death
    if death is None:
        return (TO_THE_END,)
    if isinstance(death, AtCall):
        return ANY_STAGE
    return _exactly(death)


def _exactly(death: AtPoint) -> tuple[int, ...]:
    """After a kill what landed is known. After an error a run that landed may also go on to its end; and one that did
    not may have forgotten its bound."""
    if death.point in LANDED:
        return (ONE_LANDED,) if death.how is How.KILL else (ONE_LANDED, TO_THE_END)
    if death.point in UNFROZEN:
        return (NOTHING_LANDED,)
    return (BOUND_FROZEN,) if death.how is How.KILL else (NOTHING_LANDED, BOUND_FROZEN)
