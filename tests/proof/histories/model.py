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

from .steps import (
    EVERY,
    INCREMENTAL,
    LANDED,
    MIRRORED,
    UNFROZEN,
    AtCall,
    AtPoint,
    Declared,
    Delete,
    How,
    Row,
    Run,
    days_of,
)

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
    """What is known of a task goes by its name: a table that was taken over has slices of two of them."""

    source: list[Row] = field(default_factory=list)
    declared: Declared = field(default_factory=Declared)
    tables: dict[str, Counter[Row]] = field(default_factory=lambda: {name: Counter() for name in EVERY})
    owners: dict[str, str] = field(default_factory=dict)
    """Whose each table is: who published there first, or took it over last."""
    changes: Counter[date] = field(default_factory=Counter)
    """How often the source's rows of a day have changed."""
    published: dict[tuple[str, str], int] = field(default_factory=dict)
    """By name and label: after how many changes of its source."""
    adopted: set[tuple[str, str]] = field(default_factory=set)
    """Slices that a person has declared published: no run computes them, and nothing was sent for them."""
    displaced: set[tuple[str, str]] = field(default_factory=set)
    cuts: dict[str, bool] = field(default_factory=dict)
    """Whether the newest slices of a task are months."""
    doubted: set[tuple[str, str]] = field(default_factory=set)
    """Slices that others may have written over since: of another cut, or of another task. The next run computes them
    again, and corrects what it finds."""
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

    def refuses(self, table: str) -> bool:
        """Whether a run of this table's task is refused: another one has the table; or it has appended slices of
        another cut, and only by their labels would it know its rows."""
        name = self.declared.name_of(table)
        if self.owners.get(table, name) != name:
            return True
        return table == "raw" and self.cuts.get(name, self._monthly(table)) != self._monthly(table)

    def take_over(self, table: str) -> None:
        """What the taker has itself published there, the other may have written over. Appended rows stay what they
        are, and a mark stays where it is."""
        name = self.declared.name_of(table)
        if self.owners.get(table, name) == name:
            return
        self.owners[table] = name
        if table != "raw":
            self.adopted = {slice_ for slice_ in self.adopted if slice_[0] != name}
            self.doubted |= {slice_ for slice_ in self.published if slice_[0] == name}

    def adopt(self, table: str, day: int) -> None:
        """What is published already stays what it is."""
        name = self.declared.name_of(table)
        slice_ = name, self.declared.label_of(table, day)
        if slice_ in self.published:
            return
        self._cut(name, self._monthly(table))
        self.owners[table] = name
        self.published[slice_] = sum(self.changes[day] for day in days_of(slice_[1]))
        self.adopted.add(slice_)

    def may_be_rebuilt(self, table: str) -> bool:
        """Slices of one cut are there; and where they are computed one by one, each row is of one of them, and none
        that is copied may be another's."""
        name = self.declared.name_of(table)
        if table in INCREMENTAL:
            return name in self.marks
        labels = {label for task, label in self.published if task == name}
        if not labels or any((len(label) == len("2026-06")) != self._monthly(table) for label in labels):
            return False
        days = {day for label in labels for day in days_of(label)}
        return table != "daily" or (
            not (self.adopted & self.doubted) and all(row[1] in days for row in self.tables["daily"])
        )

    def rebuild(self, table: str) -> None:
        """What is copied stays as it is, and so does what a person has adopted."""
        if table != "daily":
            return
        name = self.declared.name_of(table)
        for slice_ in [each for each in self.published if each[0] == name and each not in self.adopted]:
            days = days_of(slice_[1])
            self.published[slice_] = sum(self.changes[day] for day in days)
            self.doubted.discard(slice_)
            self._write(table, slice_, self._computed(table, lambda row, days=days: row[1] in days), False)  # type: ignore[misc]

    def _monthly(self, table: str) -> bool:
        return table in self.declared.monthly

    def arrive(self, rows: Sequence[Row]) -> None:
        self.source += rows
        self.changes.update({row[1] for row in rows})

    def withdraw(self, id_: int) -> None:
        self.changes.update({row[1] for row in self.source if row[0] == id_})
        self.source = [row for row in self.source if row[0] != id_]

    def reset(self, table: str, to: datetime) -> None:
        """A mark that was set forward is a bound for whoever comes from the old one again."""
        name = self.declared.name_of(table)
        if to > self.marks[name]:
            self.frozen.setdefault((name, self.marks[name]), to)
        self._move(name, to)

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
        name, label = self.declared.name_of(step.task), self.declared.label_of(step.task, step.day)
        days, slice_ = days_of(label), (name, label)
        before, changes = self.published.get(slice_), sum(self.changes[day] for day in days)
        same = before == changes and slice_ not in self.displaced | self.doubted
        kept = same or step.task == "raw" or (slice_ in self.adopted and slice_ not in self.doubted)
        if before is not None and kept and not step.restate:
            return
        self.adopted.discard(slice_)
        corrects = step.restate or slice_ in self.doubted
        self._cut(name, self._monthly(step.task))
        self.owners[step.task] = name
        self.published[slice_] = changes
        self.doubted.discard(slice_)
        self._write(step.task, slice_, self._computed(step.task, lambda row: row[1] in days), corrects)

    def _computed(self, table: str, wanted: Callable[[Row], bool]) -> list[Row]:
        more = self.declared.added_to(table)
        return [(*row[:3], row[3] + more) for row in self.source if wanted(row)]

    def _cut(self, name: str, monthly: bool) -> None:
        """Slices that are cut differently may lie over all that the task has published."""
        if self.cuts.get(name, monthly) != monthly:
            self.doubted |= {slice_ for slice_ in self.published if slice_[0] == name}
        self.cuts[name] = monthly

    def _write(self, task: str, slice_: tuple[str, str], rows: Sequence[Row], corrects: bool) -> None:
        table = self.tables[task]
        if task == "daily":
            days = days_of(slice_[1])
            self.tables["daily"] = Counter({row: n for row, n in table.items() if row[1] not in days}) + Counter(rows)
        elif task == "raw":
            table.update(rows)
        elif task == "inserted":
            known = {(row[0], row[2]) for row in table}
            batch = self._one_of_each(rows, lambda row: (row[0], row[2]))
            table.update(row for key, row in batch.items() if key not in known)
        elif task == MIRRORED:
            self._mirror(slice_, rows, corrects)
        else:
            self._merge(table, rows, corrects)

    def _mirror(self, slice_: tuple[str, str], rows: Sequence[Row], corrects: bool) -> None:
        """What another slice holds of a key and is newer stays, and this one is computed again by its next run."""
        table, batch = self.tables[MIRRORED], self._one_of_each(rows, lambda row: row[0])
        held, days = {row[0]: row for row in table}, days_of(slice_[1])
        for old in held.values():
            if old[1] in days and old[0] not in batch:
                del table[old]
        self.displaced.discard(slice_)
        for id_, row in batch.items():
            old = held.get(id_, row)
            elsewhere = old[1] not in days
            if row[2] < old[2]:
                self.displaced |= {slice_} if elsewhere else set()
                continue
            if row[2] > old[2] or elsewhere or corrects or self._newer(row, old) == row:
                del table[old]
                table[row] = 1

    def _catch_up(self, table: str, stages: int) -> None:
        """A run that finds a bound frozen by a dead attempt takes that first, then the rest."""
        name, keyed, done = self.declared.name_of(table), table == "feed", 0
        while self.source:
            mark, newest = self.marks.get(name), max(row[2] for row in self.source)
            low = self.declared.initial if mark is None else mark

            def ahead(bound: datetime, low: datetime = low, first: bool = mark is None) -> bool:
                return bound > low or (keyed and first and bound == low)

            frozen = self.frozen.get((name, mark), newest)
            high = min(newest, frozen) if ahead(frozen) else newest
            if not ahead(high) or done >= stages:
                return
            self.frozen.setdefault((name, mark), high)
            if done + 1 >= stages:
                return
            rows = self._computed(table, _between(low, high, keyed))
            again = mark is not None and self.furthest[name] > mark
            self._move(name, high)
            self.owners[table] = name
            if keyed:
                self._merge(self.tables[table], rows, corrects=again)
            else:
                self.tables[table].update(rows)
            done += 2

    def _move(self, name: str, mark: datetime) -> None:
        self.marks[name] = mark
        self.furthest[name] = max(mark, self.furthest.get(name, mark))

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


def _between(low: datetime, high: datetime, with_last: bool) -> Callable[[Row], bool]:
    return lambda row: low <= row[2] < high or (with_last and row[2] == high)


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
