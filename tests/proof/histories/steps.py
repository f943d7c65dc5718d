"""What may happen in a history, and how histories are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from enum import Enum

from hypothesis import strategies as st

from twice.core.failure.failpoints import Point

DAYS = (date(2026, 6, 9), date(2026, 6, 10), date(2026, 7, 1))
"""Two of one month, and one of another."""
START = datetime(2026, 6, 9, tzinfo=timezone.utc)
LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
UNFROZEN = (Point.AFTER_PLAN, Point.AFTER_CLAIM)
"""Here an incremental run has not fixed its upper bound yet."""

DAILY = ("daily", "merged", "inserted", "raw")
MIRRORED = "mirrored"
"""A day of it loses what its source has lost."""
INCREMENTAL = ("feed", "log")
EVERY = (*DAILY, MIRRORED, *INCREMENTAL)
RESTATED = ("daily", "merged", MIRRORED)
ADOPTED = ("daily", "merged", "raw")

Row = tuple[int, date, datetime, int]
"""id, day, seen, amount"""


@dataclass(frozen=True)
class Declared:
    """How the tasks of a side are declared: the tables whose task cuts by months, the others by days; and those whose
    task has its second name, without `formerly`: it is another task then."""

    initial: datetime = START
    monthly: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()

    def name_of(self, table: str) -> str:
        return f"{table}_2" if table in self.renamed else table

    def label_of(self, table: str, day: int) -> str:
        written = DAYS[day].isoformat()
        return written[:7] if table in self.monthly else written

    def added_to(self, table: str) -> int:
        """What the table's task adds to every amount. Each declaration something else: else nobody would see which of
        them wrote a row."""
        return 10_000 * (table in self.monthly) + 20_000 * (table in self.renamed)


def days_of(label: str) -> frozenset[date]:
    return frozenset(day for day in DAYS if day.isoformat().startswith(label))


class How(Enum):
    """The ways in which a run ends before its time."""

    KILL = "kill"
    ERROR = "an ordinary exception"
    CTRL_C = "KeyboardInterrupt"
    SIGTERM = "SIGTERM"


@dataclass(frozen=True)
class AtPoint:
    """The run ends at a named place."""

    point: Point
    how: How


@dataclass(frozen=True)
class AtCall:
    """Ctrl-C at any moment: when the run enters its nth function of twice, wherever that is."""

    number: int


Death = AtPoint | AtCall


@dataclass(frozen=True)
class Arrive:
    """Rows of a side's source: (id, which day, minutes after the start, which amount). Equally new rows of one id with
    different amounts are ties."""

    side: int
    rows: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Run:
    """Of the task that writes this table, whatever its name is by now; of the slice that this day is in."""

    side: int
    task: str
    day: int
    death: Death | None = None
    restate: bool = False


@dataclass(frozen=True)
class Rebuild:
    """A task's table is built again beside itself: `daily` by computing its slices, the others by copying the table."""

    side: int
    task: str
    death: Death | None = None


@dataclass(frozen=True)
class Adopt:
    """A person declares the slice that this day is in published, with the rows that it has."""

    side: int
    task: str
    day: int


@dataclass(frozen=True)
class Withdraw:
    """A side's source loses the rows of an id."""

    side: int
    id: int


@dataclass(frozen=True)
class ResetMark:
    """A person moves the mark of an incremental task, to so many minutes after the start."""

    side: int
    task: str
    minutes: int


@dataclass(frozen=True)
class Delete:
    """Another writer deletes the rows of an id from a task's table."""

    side: int
    task: str
    id: int


@dataclass(frozen=True)
class MoveInitial:
    """The incremental tasks are declared with another `initial`, so many minutes after the start."""

    minutes: int


@dataclass(frozen=True)
class FailEvolving:
    """`daily` is declared with one more column and an audit that fails, and run."""

    side: int
    day: int


@dataclass(frozen=True)
class Recut:
    """A task of slices is declared with another scope: by months, or by days."""

    side: int
    task: str
    monthly: bool


@dataclass(frozen=True)
class Rename:
    """The task of a table is declared under its other name: by its tokens, it is another task."""

    side: int
    task: str
    renamed: bool


@dataclass(frozen=True)
class TakeOver:
    """The task of a table is declared under that name, and a person lets it take the table over."""

    side: int
    task: str
    renamed: bool


Step = (
    Arrive
    | Run
    | Rebuild
    | Adopt
    | Delete
    | Withdraw
    | ResetMark
    | MoveInitial
    | FailEvolving
    | Recut
    | Rename
    | TakeOver
)


def steps() -> st.SearchStrategy[list[Step]]:
    """Half of the histories are about one task that is declared otherwise on the way."""
    return st.one_of(_as_declared(), st.sampled_from(EVERY).flatmap(_redeclared))


def _as_declared() -> st.SearchStrategy[list[Step]]:
    """Few ids and few days, so that rows meet; two histories in three keep to two tasks, so that their runs do; half
    of them have two warehouses on the one ledger."""
    tasks = st.one_of(st.tuples(*[st.sampled_from(EVERY)] * 2), st.just(("merged", "feed")), st.just(EVERY))
    sides = st.sampled_from([(0,), (0, 1)])
    return st.tuples(tasks, sides).flatmap(
        lambda drawn: _history(drawn[1], st.lists(_later(*drawn), min_size=2, max_size=10))
    )


def _redeclared(task: str) -> st.SearchStrategy[list[Step]]:
    """Rounds of a declaration, a run of it and perhaps something else: what another declaration has written over shows
    only where the same slice is run before, in between and after."""
    day = st.sampled_from([0, 0, 1, 2])
    run = st.builds(Run, st.just(0), st.just(task), day, st.none())
    others = st.one_of(_later((task,), (0,)), st.builds(Arrive, st.just(0), _rows()))
    rounds = st.tuples(_redeclaration(task), run, st.none() | others)
    return _history((0,), st.lists(rounds, min_size=3, max_size=6).map(_flattened))


def _flattened(rounds: Sequence[Sequence[Step | None]]) -> list[Step]:
    return [step for round_ in rounds for step in round_ if step is not None]


def _history(sides: Sequence[int], rest: st.SearchStrategy[list[Step]]) -> st.SearchStrategy[list[Step]]:
    first = st.tuples(*[st.builds(Arrive, st.just(at), _rows()) for at in sides])
    return st.builds(lambda begin, later: [*begin, *later], first, rest)


def _rows() -> st.SearchStrategy[tuple[tuple[int, int, int, int], ...]]:
    row = st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 20), st.sampled_from([0, 0, 1]))
    return st.lists(row, min_size=2, max_size=5).map(tuple)


def _later(tasks: Sequence[str], sides: Sequence[int]) -> st.SearchStrategy[Step]:
    side, day, name, rows = st.sampled_from(sides), st.integers(0, 2), st.sampled_from(tasks), _rows()
    run = st.builds(Run, side, name, day, st.none())
    broken = st.builds(Run, side, name, day, _deaths())
    found: list[st.SearchStrategy[Step]] = [st.builds(Arrive, side, rows), run, run, broken, broken]
    found.append(st.builds(Delete, side, name, st.integers(1, 3)))
    found.append(st.builds(Withdraw, side, st.integers(1, 3)))
    found.append(st.builds(Rebuild, side, name, st.none() | _deaths()))
    adopted = [task for task in tasks if task in ADOPTED]
    if adopted:
        found.append(st.builds(Adopt, side, st.sampled_from(adopted), day))
    restated = [task for task in tasks if task in RESTATED]
    if restated:
        found.append(st.builds(Run, side, st.sampled_from(restated), day, st.none() | _deaths(), st.just(True)))
    if "daily" in tasks:
        found.append(st.builds(FailEvolving, side, day))
    incremental = [task for task in tasks if task in INCREMENTAL]
    if incremental:
        found.append(st.builds(MoveInitial, st.integers(-30, 30)))
        found.append(st.builds(ResetMark, side, st.sampled_from(incremental), st.integers(-5, 25)))
    return st.one_of(found)


def _redeclaration(task: str) -> st.SearchStrategy[Step | None]:
    """Or none. A task of marks has one cut only."""
    sliced = () if task in INCREMENTAL else (Recut, Recut, Recut)
    # Not `one_of`: it takes a strategy that is given twice for one.
    kinds = st.sampled_from([None, Rename, TakeOver, TakeOver, *sliced])
    return st.builds(lambda kind, which: kind and kind(0, task, which), kinds, st.booleans())


def _deaths() -> st.SearchStrategy[Death]:
    at_point = st.builds(AtPoint, st.sampled_from(list(Point)), st.sampled_from(list(How)))
    return st.one_of(at_point, at_point, st.builds(AtCall, st.integers(1, 900)))


def row_of(drawn: tuple[int, int, int, int]) -> Row:
    id_, day, minute, variant = drawn
    return id_, DAYS[day], START + timedelta(minutes=minute), 100 * id_ + minute + 1000 * variant
