"""merge(delete_missing): a row that moved to another day with an older stamp is displaced by the one that is to be
deleted, and comes in once that is gone, whichever day runs first."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from tests.runtime.backfill.test_silent_worker import Unversioned
from tests.runtime.conftest import RuntimeSetup
from tests.runtime.starting import start

from twice import Daily, merge, read, task
from twice.core.backfill.plan import BackfillRequest
from twice.core.backfill.result import BackfillState
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column
from twice.core.results.run import Outcome, RunRequest
from twice.core.scope import slice_named
from twice.core.task import Policy, TableName, Task
from twice.errors import Superseded
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.worker import Stop, work
from twice.runtime.run.explain import explain
from twice.runtime.run.run_many import run_all, run_slices
from twice.runtime.staleness.decide import INPUTS_NOT_NAMED
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.staleness.stale import stale_slices
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.targets.memory.rows import Rows

SOURCE, COPY = TableName("shop.source"), TableName("shop.copy")
COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("stamp", "bigint"))
MONDAY, TUESDAY = date(2026, 6, 8), date(2026, 6, 9)
CORRECTED = (1, MONDAY, 10)


@pytest.fixture
def declared(runtime: RuntimeSetup) -> Task:
    """Published, and then corrected at its source: day and stamp of a row were wrong."""
    declare = task(
        "shop.copy",
        scope=Daily("day", start="2026-01-01"),
        inputs={"rows": read("shop.source", by="day")},
        write=merge("id", newest_by="stamp", delete_missing=True),
        name="copy",
    )
    copied = runtime.declare(declare(lambda rows: rows))
    runtime.put(SOURCE, Rows(COLUMNS, ((1, TUESDAY, 20),)))
    for day in (MONDAY, TUESDAY):
        runtime.run(copied, day.isoformat())
    runtime.put(SOURCE, Rows(COLUMNS, (CORRECTED,)))
    return copied


def table(runtime: RuntimeSetup) -> list[tuple[int, date, int]]:
    return list(runtime.target.read(COPY).rows)


@pytest.mark.parametrize("order", [(MONDAY, TUESDAY), (TUESDAY, MONDAY)], ids=["new day first", "old day first"])
def test_a_row_that_moved_with_an_older_stamp_is_there_whichever_day_runs_first(
    runtime: RuntimeSetup, declared: Task, order: tuple[date, ...]
) -> None:
    for _ in range(2):
        for day in order:
            runtime.run(declared, day.isoformat())
    assert table(runtime) == [CORRECTED]
    assert {runtime.run(declared, day.isoformat()).outcome for day in order} == {Outcome.ALREADY}


def test_a_run_whose_rows_gave_way_says_so_and_what_to_do_and_is_stale(runtime: RuntimeSetup, declared: Task) -> None:
    first = runtime.run(declared, MONDAY.isoformat())
    assert (
        first.changes is not None
        and str(first.changes) == "1 older ignored, 1 of the older ones newer in another slice"
    )
    assert (
        "1 row was left out: another slice holds a newer row of its key. If that slice should have lost it, run "
        "that slice, then this one again."
    ) in first.notes
    why = "rows of it were displaced by newer ones of other slices, or an input had no version"
    (status,) = slice_statuses(runtime.context, declared, (declared.scope.slice_of("2026-06-08"),), None)  # type: ignore[union-attr]
    assert (status.status, status.why) == ("stale", why)
    again = runtime.run(declared, MONDAY.isoformat())
    assert (again.outcome, again.why) == (Outcome.PUBLISHED, why)
    runtime.run(declared, TUESDAY.isoformat())
    assert not runtime.run(declared, MONDAY.isoformat()).notes


@pytest.mark.parametrize("how", ["look", "rebuild", "lost ledger"])
def test_what_gave_way_is_known_also_where_the_run_died_after_its_commit(
    runtime: RuntimeSetup, declared: Task, how: str
) -> None:
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        runtime.run(declared, MONDAY.isoformat())
    runtime.clock.ahead += timedelta(hours=1)
    kept = runtime.ledger
    if how == "lost ledger":
        fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
        runtime.context = replace(runtime.context, ledger=fresh)
    if how != "look":
        rebuild_ledger(runtime.context, None)
    for day in (TUESDAY, MONDAY):
        runtime.run(declared, day.isoformat())
    assert table(runtime) == [CORRECTED]
    if kept is not runtime.ledger:
        kept.close()
    runtime.ledger.close()


def test_two_at_once_whose_rows_gave_way_cannot_show_that_they_are_the_same(
    runtime: RuntimeSetup, declared: Task
) -> None:
    def overtaken(point: object) -> None:
        if point is Point.PUBLISHING and not overtakers:
            overtakers.append(runtime.ledger.attempts("copy")[0].id)
            runtime.clock.ahead += timedelta(hours=1)
            runtime.run(declared, MONDAY.isoformat())

    overtakers: list[str] = []
    with armed(overtaken), pytest.raises(Superseded, match="it cannot be shown that it read the same inputs"):
        runtime.run(declared, MONDAY.isoformat())


def test_the_newest_row_of_a_key_in_two_days_at_once_stays_whichever_day_runs_last(
    runtime: RuntimeSetup, declared: Task
) -> None:
    runtime.put(SOURCE, Rows(COLUMNS, (CORRECTED, (1, TUESDAY, 20))))
    for day in (MONDAY, TUESDAY, MONDAY):
        runtime.run(declared, day.isoformat())
        assert table(runtime) == [(1, TUESDAY, 20)]


@pytest.fixture
def looking_back(runtime: RuntimeSetup, declared: Task) -> Task:
    return runtime.declare(replace(declared, scope=Daily("day", start="2026-01-01", lookback=1)))


def test_a_chain_that_looks_back_runs_a_day_whose_row_gave_way_once_more(
    runtime: RuntimeSetup, looking_back: Task
) -> None:
    (end,) = run_all(runtime.context, TUESDAY.isoformat(), None)
    assert [result.slices[0].label for result in end.results] == ["2026-06-08", "2026-06-08", "2026-06-09"]
    assert (table(runtime), end.stale) == ([CORRECTED], ())


def test_of_a_key_in_two_days_for_good_a_chain_runs_the_older_one_only_once_more_and_names_it(
    runtime: RuntimeSetup, looking_back: Task
) -> None:
    runtime.put(SOURCE, Rows(COLUMNS, (CORRECTED, (1, TUESDAY, 30))))
    for made in (3, 2):  # the second night Tuesday is as it was, and nothing is published after Monday
        (end,) = run_all(runtime.context, TUESDAY.isoformat(), None)
        assert len(end.results) == made
        assert table(runtime) == [(1, TUESDAY, 30)]
        assert [(each.slice.label, each.why) for each in end.stale] == [("2026-06-08", INPUTS_NOT_NAMED)]


def test_a_call_that_restates_both_days_has_the_row_and_restates_neither_twice(
    runtime: RuntimeSetup, declared: Task
) -> None:
    days = tuple(slice_named(declared.scope, day.isoformat()) for day in (MONDAY, TUESDAY))
    results = run_slices(runtime.context, declared, days, RunRequest("restate"))
    assert [(each.slices[0].label, each.why) for each in results] == [
        ("2026-06-08", "restated on request"),
        ("2026-06-08", INPUTS_NOT_NAMED),
        ("2026-06-09", "restated on request"),
    ]
    assert table(runtime) == [CORRECTED]


def asked_of_both_days() -> BackfillRequest:
    return BackfillRequest("copy", MONDAY.isoformat(), TUESDAY.isoformat(), ("stale",), batch="off")


def test_a_finished_backfill_of_both_days_has_the_row(runtime: RuntimeSetup, declared: Task) -> None:
    record, _ = start(runtime.context, asked_of_both_days())
    ended = work(runtime.context, record.name, lambda _: None, Stop.never())
    assert (ended.state, table(runtime)) == (BackfillState.FINISHED, [CORRECTED])


def test_a_backfill_whose_worker_died_after_its_last_batch_comes_back_to_the_row(
    runtime: RuntimeSetup, declared: Task
) -> None:
    record, _ = start(runtime.context, asked_of_both_days())
    died: list[object] = []

    def dies(_: object) -> None:
        died.append(_)
        if len(died) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(runtime.context, record.name, dies, Stop.never())
    assert table(runtime) == []
    ended = work(runtime.context, record.name, lambda _: None, Stop.never())
    assert (ended.state, table(runtime)) == (BackfillState.FINISHED, [CORRECTED])


def test_a_backfill_that_is_asked_to_stop_is_not_finished_without_the_row(
    runtime: RuntimeSetup, declared: Task
) -> None:
    record, _ = start(runtime.context, asked_of_both_days())
    stop, done = Stop.never(), []

    def stops(event: object) -> None:
        done.append(event)
        if len(done) == 2:
            stop.asked.set()

    assert work(runtime.context, record.name, stops, stop).state is BackfillState.RUNNING
    ended = work(runtime.context, record.name, lambda _: None, Stop.never())
    assert (ended.state, table(runtime)) == (BackfillState.FINISHED, [CORRECTED])


@pytest.mark.parametrize("lost", [False, True], ids=["known ledger", "lost ledger"])
@pytest.mark.parametrize("rerun", ["when_changed", "never"])
def test_what_gave_way_is_stale_for_status_plan_and_backfill_until_it_is_run_again(
    runtime: RuntimeSetup, declared: Task, rerun: str, lost: bool
) -> None:
    declared = runtime.declare(replace(declared, policy=Policy(rerun=rerun)))  # type: ignore[arg-type]
    for day in (MONDAY, TUESDAY):
        runtime.run(declared, day.isoformat(), kind="restate")
    kept = runtime.ledger
    if lost:
        fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
        runtime.context = replace(runtime.context, ledger=fresh)
        rebuild_ledger(runtime.context, None)
    days = tuple(slice_named(declared.scope, day.isoformat()) for day in (MONDAY, TUESDAY))
    named = stale_slices(runtime.context.project, runtime.ledger, declared, runtime.context.code_of(declared))
    assert [(each.slice, each.why) for each in named] == [(days[0], INPUTS_NOT_NAMED)]
    assert slice_statuses(runtime.context, declared, days[:1], None)[0].status == "stale"
    assert explain(runtime.context, declared, days[0]).compute
    assert runtime.run(declared, MONDAY.isoformat()).outcome is Outcome.PUBLISHED
    assert table(runtime) == [CORRECTED]
    assert not stale_slices(runtime.context.project, runtime.ledger, declared, runtime.context.code_of(declared))
    assert runtime.run(declared, MONDAY.isoformat()).outcome is Outcome.ALREADY
    if kept is not runtime.ledger:
        kept.close()
    runtime.ledger.close()


def test_a_slice_whose_inputs_have_no_version_stays_by_its_policy_if_no_row_was_displaced(
    runtime: RuntimeSetup, declared: Task
) -> None:
    declared = runtime.declare(replace(declared, policy=Policy(rerun="never")))
    runtime.context = replace(runtime.context, engine=Unversioned())
    runtime.run(declared, TUESDAY.isoformat(), kind="restate")
    assert runtime.run(declared, TUESDAY.isoformat()).outcome is Outcome.ALREADY
    assert not stale_slices(runtime.context.project, runtime.ledger, declared, runtime.context.code_of(declared))
