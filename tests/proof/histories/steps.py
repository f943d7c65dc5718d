"""What may happen in a history, and how histories are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from enum import Enum

from hypothesis import strategies as st

from twice.core.failure.failpoints import Point

DAYS = (date(2026, 6, 9), date(2026, 6, 10), date(2026, 6, 11))
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

Row = tuple[int, date, datetime, int]
"""id, day, seen, amount"""


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
    side: int
    task: str
    day: int
    death: Death | None = None
    restate: bool = False


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


Step = Arrive | Run | Delete | Withdraw | ResetMark | MoveInitial | FailEvolving


def steps() -> st.SearchStrategy[list[Step]]:
    """Few ids and few days, so that rows meet; two histories in three keep to two tasks, so that their runs do; half
    of them have two warehouses on the one ledger."""
    tasks = st.one_of(st.tuples(*[st.sampled_from(EVERY)] * 2), st.just(("merged", "feed")), st.just(EVERY))
    sides = st.sampled_from([(0,), (0, 1)])
    return st.tuples(tasks, sides).flatmap(lambda drawn: _history(*drawn))


def _history(tasks: Sequence[str], sides: Sequence[int]) -> st.SearchStrategy[list[Step]]:
    side = st.sampled_from(sides)
    row = st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 20), st.sampled_from([0, 0, 1]))
    rows = st.lists(row, min_size=2, max_size=5).map(tuple)
    first = st.tuples(*[st.builds(Arrive, st.just(at), rows) for at in sides])
    rest = st.lists(_later(tasks, side, rows), min_size=2, max_size=10)
    return st.builds(lambda begin, later: [*begin, *later], first, rest)


def _later(
    tasks: Sequence[str], side: st.SearchStrategy[int], rows: st.SearchStrategy[tuple[tuple[int, int, int, int], ...]]
) -> st.SearchStrategy[Step]:
    day, name = st.integers(0, 2), st.sampled_from(tasks)
    run = st.builds(Run, side, name, day, st.none())
    broken = st.builds(Run, side, name, day, _deaths())
    found: list[st.SearchStrategy[Step]] = [st.builds(Arrive, side, rows), run, run, broken, broken]
    found.append(st.builds(Delete, side, name, st.integers(1, 3)))
    found.append(st.builds(Withdraw, side, st.integers(1, 3)))
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


def _deaths() -> st.SearchStrategy[Death]:
    at_point = st.builds(AtPoint, st.sampled_from(list(Point)), st.sampled_from(list(How)))
    return st.one_of(at_point, at_point, st.builds(AtCall, st.integers(1, 900)))


def row_of(drawn: tuple[int, int, int, int]) -> Row:
    id_, day, minute, variant = drawn
    return id_, DAYS[day], START + timedelta(minutes=minute), 100 * id_ + minute + 1000 * variant
