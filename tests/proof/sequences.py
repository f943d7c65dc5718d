"""Random histories of a small shop, played on a real target and on a pure model of its tables side by side.

Rows arrive (late ones too), slices run and crash, are restated, other people delete rows. After every step each table
holds exactly what the model says, and so does each mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any, Protocol

from hypothesis import strategies as st

from twice import Daily, Since, append_once, insert_new, merge, read, replace, task
from twice.core.failpoints import Crash, Point, armed, crash_at
from twice.core.project import Project, assemble
from twice.core.scope import slice_named
from twice.core.since import told
from twice.core.task import Task
from twice.runtime.mark import show_mark
from twice.runtime.recover import recover
from twice.runtime.run_many import run_slices
from twice.runtime.workshop import Workshop

DAYS = (date(2026, 6, 9), date(2026, 6, 10), date(2026, 6, 11))
START = datetime(2026, 6, 9, tzinfo=timezone.utc)
LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
FROZEN = tuple(point for point in Point if point not in (Point.AFTER_PLAN, Point.AFTER_CLAIM) and point not in LANDED)

Row = tuple[int, date, datetime, int]
"""id, day, seen, amount"""


@dataclass(frozen=True)
class Arrive:
    """Rows of the source: (id, which day, minutes after the start). No (id, minute) comes twice."""

    rows: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Run:
    task: str
    day: int
    crash: Point | None = None
    restate: bool = False


@dataclass(frozen=True)
class Delete:
    """Another writer deletes the rows of an id."""

    task: str
    id: int


Step = Arrive | Run | Delete

DAILY = ("daily", "merged", "inserted", "raw")
INCREMENTAL = ("feed", "log")


def steps() -> st.SearchStrategy[list[Step]]:
    """Few ids and few days, so that rows meet; two histories in three keep to two tasks, so that their runs do."""
    row = st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 20))
    arrive = st.builds(Arrive, st.lists(row, min_size=2, max_size=5).map(tuple))
    every = DAILY + INCREMENTAL
    some = st.one_of(st.tuples(*[st.sampled_from(every)] * 2), st.just(("merged", "feed")), st.just(every))
    return some.flatmap(lambda tasks: st.builds(lambda first, rest: [first, *rest], arrive, _rest(arrive, tasks)))


def _rest(arrive: st.SearchStrategy[Arrive], tasks: Sequence[str]) -> st.SearchStrategy[list[Step]]:
    day, name = st.integers(0, 2), st.sampled_from(tasks)
    crash = st.none() | st.none() | st.sampled_from(list(Point))
    later: list[st.SearchStrategy[Step]] = [arrive, st.builds(Run, name, day, crash), st.builds(Run, name, day)]
    owned = [task for task in tasks if task in ("daily", "merged")]
    if owned:
        later += [
            st.builds(Run, st.sampled_from(owned), day, crash, st.just(True)),
            st.builds(Delete, st.sampled_from(owned), st.integers(1, 3)),
        ]
    return st.lists(st.one_of(later), min_size=2, max_size=10)


class World(Protocol):
    """A target under test, with a source that other people write."""

    @property
    def shop(self) -> Workshop: ...

    def arrive(self, rows: Sequence[Row]) -> None: ...

    def delete(self, table: str, id_: int) -> None: ...

    def rows(self, table: str) -> Counter[Row]:
        """Empty for a table that does not exist yet."""

    def pass_time(self) -> None:
        """Longer than any lease."""


def project() -> Project:
    def declared(name: str, scope: Any, write: Any, by: str) -> Task:
        declare = task(f"shop.{name}", scope=scope, write=write, inputs={"rows": read("shop.source", by=by)}, name=name)
        return declare(_same)

    day = Daily("day", start="2026-06-01")
    since = Since("seen", initial=told(START))
    return assemble(
        "p",
        [
            declared("daily", day, replace(), "day"),
            declared("merged", day, merge("id", newest_by="seen"), "day"),
            declared("inserted", day, insert_new(["id", "seen"]), "day"),
            declared("raw", day, append_once(), "day"),
            declared("feed", since, merge("id", newest_by="seen"), "seen"),
            declared("log", since, append_once(), "seen"),
        ],
    )


def _same(rows: Any) -> Any:
    return rows


@dataclass
class Model:
    """What the tables must hold, by rules that fit on a screen."""

    source: list[Row] = field(default_factory=list)
    tables: dict[str, Counter[Row]] = field(default_factory=lambda: {name: Counter() for name in DAILY + INCREMENTAL})
    published: dict[tuple[str, date], list[Row]] = field(default_factory=dict)
    marks: dict[str, datetime] = field(default_factory=dict)
    frozen: dict[tuple[str, datetime | None], datetime] = field(default_factory=dict)

    def new(self, step: Arrive) -> list[Row]:
        """The rows of a step that the source does not have yet: of one id no two are equally new."""
        found: list[Row] = []
        for id_, day, minute in step.rows:
            row = (id_, DAYS[day], START + timedelta(minutes=minute), 100 * id_ + minute)
            if all((other[0], other[2]) != (row[0], row[2]) for other in (*self.source, *found)):
                found.append(row)
        return found

    def run(self, step: Run) -> None:
        if step.task in INCREMENTAL:
            self._catch_up(step)
            return
        day = DAYS[step.day]
        rows = [row for row in self.source if row[1] == day]
        before = self.published.get((step.task, day))
        stays = before is not None and (step.task == "raw" or before == rows) and not step.restate
        if stays or not _lands(step.crash):
            return
        self.published[step.task, day] = rows
        table = self.tables[step.task]
        if step.task == "daily":
            self.tables["daily"] = Counter({row: n for row, n in table.items() if row[1] != day}) + Counter(rows)
        elif step.task == "raw":
            table.update(rows)
        elif step.task == "inserted":
            known = {(row[0], row[2]) for row in table}
            table.update(row for row in rows if (row[0], row[2]) not in known)
        else:
            _merge(table, rows)

    def _catch_up(self, step: Run) -> None:
        """A run that finds a bound frozen by a dead attempt takes that first, then the rest."""
        crash = step.crash
        while self.source:
            mark, newest = self.marks.get(step.task), max(row[2] for row in self.source)
            frozen = self.frozen.get((step.task, mark), newest)
            high, low = min(newest, frozen), mark or START
            keyed = step.task == "feed"
            if not (high > low or (keyed and mark is None and high == low)):
                return
            if crash in FROZEN:
                self.frozen.setdefault((step.task, mark), high)
            if not _lands(crash):
                return
            self.frozen.setdefault((step.task, mark), high)
            rows = [row for row in self.source if low <= row[2] < high or (keyed and row[2] == high)]
            self.marks[step.task] = high
            if keyed:
                _merge(self.tables["feed"], rows)
            else:
                self.tables["log"].update(rows)
            if crash is not None:
                return

    def delete(self, step: Delete) -> None:
        table = self.tables[step.task]
        for row in [row for row in table if row[0] == step.id]:
            del table[row]


def _lands(crash: Point | None) -> bool:
    return crash is None or crash in LANDED


def _merge(table: Counter[Row], rows: Sequence[Row]) -> None:
    for row in sorted(rows, key=lambda row: row[2]):
        held = [old for old in table if old[0] == row[0]]
        if all(old[2] <= row[2] for old in held):
            for old in held:
                del table[old]
            table[row] = 1


def play(world: World, history: Sequence[Step]) -> None:
    """Every step on both, compared after each; at the end whatever was run is run again."""
    model = Model()
    for step in history:
        _take(world, model, step)
        _compare(world, model, f"after {step}")
    for name, day in sorted({(step.task, step.day) for step in history if isinstance(step, Run)}):
        _take(world, model, Run(name, day))
    _compare(world, model, "after everything was run again")
    recover(world.shop, world.shop.engine.fresh())
    assert not world.shop.ledger.open_attempts()


def _take(world: World, model: Model, step: Step) -> None:
    if isinstance(step, Arrive):
        rows = model.new(step)
        if rows:
            world.arrive(rows)
            model.source += rows
    elif isinstance(step, Delete):
        if model.tables[step.task]:
            world.delete(f"shop.{step.task}", step.id)
            model.delete(step)
    elif model.source:  # a task whose input does not exist is another story
        _run(world, step)
        model.run(step)


def _run(world: World, step: Run) -> None:
    declared = world.shop.project.task(step.task)
    label = None if isinstance(declared.scope, Since) else DAYS[step.day].isoformat()
    slices = (slice_named(declared.scope, label),)
    kind: Any = "restate" if step.restate else "run"
    if step.crash is None:
        run_slices(world.shop, declared, slices, kind, None)
        return
    try:
        with armed(crash_at(step.crash)):
            run_slices(world.shop, declared, slices, kind, None)
    except Crash:
        world.pass_time()


def _compare(world: World, model: Model, when: str) -> None:
    for name, rows in model.tables.items():
        assert world.rows(f"shop.{name}") == rows, f"{name} {when}"
    for name in INCREMENTAL:
        mark = model.marks.get(name)
        assert show_mark(world.shop, world.shop.project.task(name)).at == (None if mark is None else told(mark)), when
