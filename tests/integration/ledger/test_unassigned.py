"""A ledger of schema 0007 is brought up: what its tables show to be theirs is theirs again, and nothing is sent twice.

`ledger_0007.json` was written by the code of that day: its rows, and the commits of the tables beside it. `alone` is of
one environment: a slice published twice, its effect sent, one whose effect was not sent, one that landed and was never
reported, a failed one, one that died after staging, a paused backfill and a proof. `shared` was written by dev and by
prod.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, text
from tests.runtime.conftest import COLUMNS, REVENUE, RuntimeSetup, ShiftedClock, make_runtime, revenue_task
from tests.runtime.run.test_since import Source, at, copy_task

from twice import PublishedSlice, call, merge
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.found import Unassigned
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.ports import Shape
from twice.core.results.run import Outcome
from twice.core.slice import Slice
from twice.core.table.token import CommitNote
from twice.core.task import Task
from twice.core.write import AppendRows, WritePlan
from twice.errors import EnvironmentProblem
from twice.ledgers.database.connect import connect, for_writing, parse_url
from twice.ledgers.database.migrate import upgrade
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_many import run_slices
from twice.runtime.table.assign import assign_all
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

S = EffectState
OLD = json.loads(Path(__file__).with_name("ledger_0007.json").read_text())
PRODS = [attempt for attempt, _ in OLD["shared"]["tables"]["prod"]]
FIRST, SECOND, THIRD, FAILED, STAGED = (f"2026-06-{day:02d}" for day in range(9, 14))


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without a ledger."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    url: str = request.getfixturevalue("database")
    return url


Row = dict[str, Any]


def put_old(url: str, case: str, edit: Callable[[list[Row]], None] = lambda rows: None) -> None:
    """The ledger of that day, by the migrations of that day. `edit`: what else was written on that day."""
    engine = connect(parse_url(url))
    with for_writing(engine).begin() as connection:
        upgrade(connection, "0007")
        tables = MetaData()
        tables.reflect(connection)
        header, *rows = deepcopy(OLD[case]["rows"])
        assert header["schema"] == "0007"
        edit(rows)
        for table in tables.sorted_tables:
            mine = [row for row in rows if f"twice_{row['table']}" == table.name]
            for row in mine:
                values = {column: _value(table, column, row) for column in row if column != "table"}
                connection.execute(table.insert().values(values))
            if connection.dialect.name == "postgresql" and mine:
                _count_on(connection, table)
    engine.dispose()


def _value(table: Any, column: str, row: dict[str, Any]) -> Any:
    value = row[column]
    if value is not None and table.c[column].type.python_type is datetime:
        return datetime.fromisoformat(value)
    return value


def _count_on(connection: Any, table: Any) -> None:
    for column in table.primary_key.columns:
        if column.autoincrement is True:
            sequence = f"pg_get_serial_sequence('{table.name}', '{column.name}')"
            connection.execute(text(f"SELECT setval({sequence}, (SELECT max({column.name}) FROM {table.name}))"))


@dataclass
class Side:
    runtime: RuntimeSetup
    task: Task
    received: list[PublishedSlice]

    @property
    def ledger(self) -> Ledger:
        return self.runtime.ledger

    @property
    def slices_sent(self) -> list[str]:
        return sorted(result.slice for result in self.received)

    def run(self, day: str, **options: Any) -> Any:
        return self.runtime.run(self.task, day, **options)

    def states(self) -> dict[str, EffectState]:
        """Of slices that have one effect that counts."""
        found = [effect for effect in self.ledger.outbox.listed((), None, 100) if effect.state.counts]
        assert len({effect.label for effect in found}) == len(found), found
        return {effect.label: effect.state for effect in found}


Open = Callable[..., Side]


@pytest.fixture
def opened(fresh: str, tmp_path: Path) -> Iterator[Open]:
    """A side of an old case: its tables hold the commits of that day."""
    sides: list[Side] = []

    def open_(case: str, side: str, again: Any = "never", edit: Any = lambda rows: None, named: str = "") -> Side:
        """`named`: the name that the environment has been given since."""
        if not sides:
            put_old(fresh, case, edit)
        clock = ShiftedClock(timedelta(hours=1))
        place = TaskTable(named or side, "delta:shop.revenue", formerly=(side,) if named else ())
        home = RecordOwner("p", named or side, {"revenue": place})
        runtime = make_runtime(Ledger.open(fresh, clock, owner=home), tmp_path, clock)
        received: list[PublishedSlice] = []

        def announce(result: PublishedSlice, key: str) -> str:
            received.append(result)
            return "receipt"

        task = replace(revenue_task(), effects=(call(announce, keyed=False, name="tell", again=again),))
        runtime.declare(task)
        runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
        commit_again(runtime, task, OLD[case]["tables"].get(side, []))
        sides.append(Side(runtime, task, received))
        return sides[-1]

    yield open_
    for each in sides:
        each.ledger.close()


def commit_again(runtime: RuntimeSetup, task: Task, commits: list[Any]) -> None:
    columns = (COLUMNS[1], replace(COLUMNS[2], name="revenue"))
    for attempt, generations in commits:
        slices: list[Slice] = [task.scope.slice_of(app.rpartition("/")[2]) for app in generations]  # type: ignore[union-attr]
        plan = WritePlan(AppendRows(tuple(slices)), tuple(slices), tuple(generations))
        into = runtime.target.prepare(REVENUE, Shape(columns, "order_date"), task.write.layout(task.scope), False)
        staged = runtime.target.stage(REVENUE, None, plan, attempt, into=into)
        before = {app: number - 1 for app, number in generations.items()}
        runtime.target.commit(staged, before, CommitNote(attempt, "run", generations))


def test_an_environment_that_was_alone_gets_its_whole_history(opened: Open) -> None:
    side = opened("alone", "alone")
    assert side.ledger.runs() == () and side.ledger.outbox.listed((), None, 9) == ()
    assign_all(side.runtime.context)
    ledger = side.ledger
    generations = {FIRST: 2, SECOND: 1, THIRD: 0, FAILED: 0, STAGED: 0}
    assert {run.label: run.generation for run in ledger.runs()} == generations
    assert [attempt.state for attempt in ledger.attempts("revenue", FAILED)] == [AttemptState.FAILED]
    backfill = ledger.backfills.record("june")
    assert backfill is not None and backfill.total == 2 and len(ledger.backfills.batches("june")) == 2
    assert list(ledger.proofs()) == ["revenue"]
    # It may still land, wherever that is.
    assert ledger.unassigned.listed() == (Unassigned("revenue", attempts=1),)
    before = list(ledger.export())
    assign_all(side.runtime.context)
    assert list(ledger.export()) == before


def test_what_was_sent_stays_sent_and_what_was_not_goes_out_once(opened: Open) -> None:
    side = opened("alone", "alone")
    assign_all(side.runtime.context)
    assert side.states() == {FIRST: S.SENT, SECOND: S.PENDING}
    settled = recover(side.runtime.context, None)
    assert [(one.labels, one.state) for one in settled] == [((THIRD,), AttemptState.PUBLISHED)]
    assert side.slices_sent == [SECOND, THIRD]
    for day in (FIRST, SECOND, THIRD):
        side.run(day, kind="restate")
    assert side.slices_sent == [SECOND, THIRD]
    assert side.run(STAGED).outcome is Outcome.PUBLISHED
    assert side.slices_sent == [SECOND, THIRD, STAGED]


def test_a_look_alone_sends_nothing_twice_either(opened: Open) -> None:
    side = opened("alone", "alone")
    for day in (FIRST, SECOND, THIRD):
        side.run(day, kind="restate")
    assert side.slices_sent == [SECOND, THIRD]
    assert side.states() == {FIRST: S.UNKNOWN, SECOND: S.SENT, THIRD: S.SENT}
    assign_all(side.runtime.context)
    for day in (FIRST, SECOND, THIRD):
        side.run(day, kind="restate")
    assert side.slices_sent == [SECOND, THIRD]


def test_a_crash_loses_no_effect_of_a_slice_that_another_environment_announced(opened: Open) -> None:
    """Dev's effect of the slice is nobody's yet; the table's commit is of an attempt that prod itself has made."""
    prod = opened("shared", "prod")
    assign_all(prod.runtime.context)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        prod.run(SECOND)
    prod.runtime.clock.ahead += timedelta(hours=3)
    assert prod.run(SECOND).outcome is Outcome.ALREADY
    assert prod.slices_sent == [SECOND]


def test_nor_does_one_before_the_environment_is_given_a_name(opened: Open) -> None:
    prod = opened("shared", "prod")
    assign_all(prod.runtime.context)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        prod.run(SECOND)
    named = opened("shared", "prod", named="production")
    named.runtime.target = prod.runtime.target
    named.runtime.context = replace(named.runtime.context, target_of=prod.runtime.context.target_of)
    named.runtime.clock.ahead += timedelta(hours=3)
    # The tables were asked: they are not asked again for that.
    assert named.ledger.unassigned.waiting({"revenue": ("revenue",)}) == ()
    assign_all(named.runtime.context)
    assert named.run(SECOND).outcome is Outcome.ALREADY
    assert named.slices_sent == [SECOND]


@pytest.mark.parametrize("order", [("dev", "prod"), ("prod", "dev")])
def test_of_two_environments_each_gets_what_its_own_table_shows(opened: Open, order: tuple[str, str]) -> None:
    sides = {name: opened("shared", name) for name in order}
    for name in order:
        assign_all(sides[name].runtime.context)
    dev, prod = sides["dev"], sides["prod"]
    assert [(run.label, run.generation) for run in dev.ledger.runs() if run.generation] == [(FIRST, 1), (SECOND, 1)]
    assert [(run.label, run.generation) for run in prod.ledger.runs() if run.generation] == [(FIRST, 2)]
    owners = {name: {a.id for a in sides[name].ledger.attempts("revenue")} for name in sides}
    tables = {name: {attempt for attempt, _ in OLD["shared"]["tables"][name]} for name in sides}
    assert owners["dev"] == tables["dev"] and owners["prod"] < tables["prod"]
    # Its slice has a later publish since, which is all that a table shows at once: undecidable, so listed.
    assert [(left.task, left.attempts, left.unsent) for left in dev.ledger.unassigned.listed()] == [("revenue", 1, 0)]
    for side in sides.values():
        recover(side.runtime.context, None)
    assert (dev.slices_sent, prod.slices_sent) == ([SECOND], [THIRD])
    for day, side in ((FIRST, dev), (SECOND, dev), (THIRD, prod)):
        side.run(day, kind="restate")
    assert (dev.slices_sent, prod.slices_sent) == ([SECOND], [THIRD])


@pytest.mark.parametrize("error", [RuntimeError("[DELTA_TRUNCATED] log\nat line 1"), EnvironmentProblem("no disk")])
def test_a_table_that_cannot_be_asked_is_asked_the_next_time_and_stops_no_command(
    opened: Open, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    side = opened("alone", "alone")
    whole = side.runtime.context

    def target_of(table: Any, session: Any) -> Any:
        raise error

    assign_all(replace(whole, target_of=target_of))
    (received,) = caplog.messages
    why = "RuntimeError: [DELTA_TRUNCATED] log" if isinstance(error, RuntimeError) else "no disk"
    assert received == (
        f"revenue: shop.revenue cannot be asked now which of the ledger's old records are its own ({why}); "
        "the next command asks it again; until then they stay unassigned"
    )
    assert side.ledger.unassigned.waiting({"revenue": ("revenue",)}) == ("revenue",)
    assign_all(whole)
    assert side.ledger.unassigned.waiting({"revenue": ("revenue",)}) == ()
    assert side.states() == {FIRST: S.SENT, SECOND: S.PENDING}


def test_what_no_table_shows_is_listed_and_never_sent(opened: Open) -> None:
    side = opened("alone", "somewhere else")
    assign_all(side.runtime.context)
    assert side.ledger.runs() == ()
    (left,) = side.ledger.unassigned.listed()
    assert (left.attempts, left.effects, left.unsent) == (6, 3, 1)
    recover(side.runtime.context, None)
    assert side.slices_sent == []
    # It is not held back by what somebody unknown has sent for another table.
    side.run(FIRST)
    assert side.slices_sent == [FIRST]


def test_a_person_can_say_whose_the_rest_is_and_nothing_of_it_is_sent(opened: Open) -> None:
    side = opened("alone", "somewhere else")
    assign_all(side.runtime.context)
    side.ledger.unassigned.take_rest("revenue", ("revenue",))
    assert side.ledger.unassigned.listed() == ()
    assert len(side.ledger.attempts("revenue")) == 6
    assert side.states() == {FIRST: S.SENT, SECOND: S.UNKNOWN}
    recover(side.runtime.context, None)
    assert side.slices_sent == []


def test_an_old_attempt_that_lands_after_the_upgrade_is_recorded_and_announced_once(opened: Open) -> None:
    side = opened("alone", "alone")
    assign_all(side.runtime.context)
    (late,) = [row["id"] for row in OLD["alone"]["rows"] if row.get("state") == "staged"]
    commit_again(side.runtime, side.task, [(late, {f"twice/p/revenue/{STAGED}": 1})])
    side.run(STAGED)
    run = side.ledger.run("revenue", STAGED)
    assert run is not None and run.generation >= 1
    assert late in [attempt.id for attempt in side.ledger.attempts("revenue", STAGED)]
    assert side.ledger.unassigned.listed() == ()


def test_what_was_sent_of_a_generation_that_the_table_does_not_hold_silences_no_later_one(opened: Open) -> None:
    def edit(rows: list[Row]) -> None:
        (sent,) = (row for row in rows if row["table"] == "effects" and row["label"] == FIRST)
        rows.append(sent | {"id": 9, "key": "k", "attempt": PRODS[2], "occasion": "2", "generation": 2})

    dev = opened("shared", "dev", again="on_restate", edit=edit)
    assign_all(dev.runtime.context)
    dev.run(FIRST, kind="restate")
    assert [(result.slice, result.generation) for result in dev.received if result.slice == FIRST] == [(FIRST, 2)]


def test_rows_that_another_environment_announced_are_not_taken_for_those_last_announced(opened: Open) -> None:
    """Both hold the slice's first generation, with other rows: what one has sent says nothing of the other's."""

    def edit(rows: list[Row]) -> None:
        (sent,) = (row for row in rows if row["table"] == "effects" and row["label"] == FIRST)
        theirs = sent["fingerprint"]
        rows.append(sent | {"id": 9, "key": "k", "attempt": PRODS[0], "occasion": f"1:{theirs}"})
        sent |= {"occasion": "1:mine", "fingerprint": "mine"}
        for row in rows:
            if row["table"] == "slices" and row["fence"] == 1:
                row["fingerprint"] = "mine"

    dev = opened("shared", "dev", again="when_changed", edit=edit)
    assign_all(dev.runtime.context)
    dev.run(FIRST, kind="restate")
    assert [(result.slice, result.generation) for result in dev.received if result.slice == FIRST] == [(FIRST, 2)]
    dev.run(FIRST, kind="restate")
    assert [result.generation for result in dev.received if result.slice == FIRST] == [2]


@pytest.mark.parametrize("environments", [1, 2])
def test_a_mark_that_was_set_back_does_not_hint_at_a_second_environment(
    fresh: str, tmp_path: Path, environments: int
) -> None:
    benches, sent = [], list[int]()
    for name in ("dev", "prod")[:environments]:
        clock = ShiftedClock()
        ledger = Ledger.open(fresh, clock, owner=RecordOwner("p", name, {"copy": TaskTable(name, "delta:shop.copy")}))
        runtime = make_runtime(ledger, tmp_path, clock)
        source, task = Source(runtime), copy_task(runtime, merge("id", newest_by="seen"))
        announce = call(
            lambda result, key: sent.append(result.generation), keyed=False, name="tell", again="on_restate"
        )
        task = runtime.declare(replace(task, effects=(announce,)))
        runtime.context = replace(runtime.context, senders={"call": CallSender()})
        for minute in range(1, 4):
            source.add((minute, at(minute), minute))
            run_slices(runtime.context, task, (task.scope.only,))  # type: ignore[union-attr]
        reset_mark(runtime.context, task, Reset("2026-06-09T00:01:00Z", "ana", "corrected"))
        benches.append(runtime)
    before = list(sent)
    forget_owners(fresh)
    for runtime in benches:
        assign_all(runtime.context)
    left = benches[0].ledger.unassigned.listed()
    assert [each.attempts for each in left] == ([] if environments == 1 else [6])
    kept = [len(runtime.ledger.attempts("copy")) for runtime in benches]
    assert kept == ([4] if environments == 1 else [1, 1])
    for runtime in benches:
        # What was sent of marks beyond the one it was set back to is not sent again.
        (declared,) = runtime.context.project.tasks.values()
        run_slices(runtime.context, declared, (declared.scope.only,))  # type: ignore[union-attr]
        assert sent == before
        runtime.ledger.close()


def forget_owners(url: str) -> None:
    """As an older twice would have written it: every record under the task's bare name, of whichever environment; of a
    slice one run, of an occasion one effect."""
    engine = connect(parse_url(url))
    with for_writing(engine).begin() as connection:
        connection.execute(text("DELETE FROM twice_effect_events"))
        for table in ("runs", "effects"):
            connection.execute(
                text(f"DELETE FROM twice_{table} WHERE task NOT IN (SELECT min(task) FROM twice_{table})")
            )
        connection.execute(text("DELETE FROM twice_leases"))
        for table in ("attempts", "slices", "runs", "effects"):
            connection.execute(text(f"UPDATE twice_{table} SET task = 'copy'"))
        connection.execute(text("UPDATE twice_tasks SET assigned = NULL"))
    engine.dispose()
