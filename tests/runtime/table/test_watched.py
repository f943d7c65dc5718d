"""What lands between a look and its commit: a takeover, or a deployment with another scope. The run that began before
publishes nothing, and says why; runs of one task and one cut do not disturb each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup

from twice import Daily, Monthly, Since, append_once, insert_new, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Point, armed
from twice.core.ledger.record import AttemptState
from twice.core.ports import Lost
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.scope import Scope, slice_named
from twice.core.table.token import CommitNote
from twice.core.task import Strategy, TableName, Task
from twice.errors import Superseded, TableChanged, TableTaken
from twice.runtime.context import RunContext
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.takeover import take_over
from twice.targets.memory.rows import Rows

COPY = TableName("shop.copy")
BY_DAY: Scope = Daily("order_date", start="2026-01-01")
BY_MONTH: Scope = Monthly("order_date", start="2026-01", slice_column="order_date")
KEYED: list[Strategy] = [replace_rows(), merge("order_id", order="any")]
EVERY: list[Strategy] = [*KEYED, insert_new("order_id"), append_once()]
WHO = HumanDecision("ana", "it is ours now")


def copying(
    name: str, write: Strategy, scope: Scope = BY_DAY, function: Callable[[Rows], Rows] = lambda orders: orders
) -> Task:
    by = scope.cursor if isinstance(scope, Since) else "order_date"
    declare = task("shop.copy", scope=scope, inputs={"orders": read("shop.orders", by=by)}, write=write, name=name)
    return declare(function)


def hundredfold(orders: Rows) -> Rows:
    return Rows(orders.columns, tuple((id_, day, 100 * amount) for id_, day, amount in orders.rows))


def project_of(runtime: RuntimeSetup, declared: Task, code: str = "v1") -> RunContext:
    """As a deployment of its own has it."""
    return replace(runtime.context, project=assemble("p", [declared]), code_hash=lambda _: code)


def run(context: RunContext, declared: Task, label: str | None) -> Outcome:
    return run_task(context, declared, (slice_named(declared.scope, label),)).outcome


def meanwhile(act: Callable[[], Any]) -> AbstractContextManager[None]:
    """Somebody acts once, when a run has looked, staged and audited, right before its commit."""
    turns = iter([act])

    def action(point: Any) -> None:
        if point is Point.PUBLISHING:
            next(turns, lambda: None)()

    return armed(action)


def amounts(runtime: RuntimeSetup) -> list[int]:
    return sorted(amount for _, _, amount in runtime.target.read(COPY).rows)


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_a_run_that_looked_before_a_takeover_publishes_nothing_after_it(runtime: RuntimeSetup, write: Strategy) -> None:
    old, new = copying("trips_raw", write), copying("ingest", write)
    theirs, ours = project_of(runtime, old), project_of(runtime, new)
    run(theirs, old, "2026-06-10")
    before = amounts(runtime)
    with meanwhile(lambda: take_over(ours, new, WHO)), pytest.raises(Superseded) as lost:
        run(theirs, old, "2026-06-09")
    assert str(lost.value) == (
        "trips_raw[2026-06-09]: shop.copy was taken over by the task ingest while this run was at work. "
        "None of this run's rows are in the table. If trips_raw should own the table again, with the rows that are in "
        'it: twice takeover trips_raw --reason "…".'
    )
    assert amounts(runtime) == before
    (attempt, _) = runtime.ledger.attempts("trips_raw")
    assert attempt.state is AttemptState.SUPERSEDED and runtime.target.leftovers(COPY, attempt.id) == ()
    assert run(ours, new, "2026-06-09") is Outcome.PUBLISHED
    assert run(ours, new, "2026-06-09") is Outcome.ALREADY
    assert amounts(runtime) == sorted([*before, 5, 10])  # each row of the day once
    with pytest.raises(TableTaken):
        run(theirs, old, "2026-06-09")


@pytest.mark.parametrize("write", KEYED, ids=lambda write: write.name)
def test_a_run_that_looked_before_the_table_was_cut_otherwise_publishes_nothing(
    runtime: RuntimeSetup, write: Strategy
) -> None:
    daily, monthly = copying("copy", write), copying("copy", write, BY_MONTH, hundredfold)
    days, months = project_of(runtime, daily), project_of(runtime, monthly, "v2")
    run(days, daily, "2026-06-09")
    with meanwhile(lambda: run(months, monthly, "2026-06")), pytest.raises(Superseded) as lost:
        run(days, daily, "2026-06-10")
    assert str(lost.value) == (
        "copy[2026-06-10]: shop.copy is cut by month since version 2, and this run, which began before, cuts it by "
        "day. None of this run's rows are in the table. Was copy deployed with another scope? Then let that deployment "
        "run it. If this run's scope is the right one, run it again: it looks first."
    )
    assert runtime.ledger.attempts("copy")[1].state is AttemptState.SUPERSEDED
    assert run(months, monthly, "2026-06") is Outcome.ALREADY
    assert all(amount % 100 == 0 for amount in amounts(runtime))
    assert run(days, daily, "2026-06-10") is Outcome.PUBLISHED  # whoever runs it now means it


def test_of_two_that_come_first_under_different_cuts_one_publishes(runtime: RuntimeSetup) -> None:
    daily, monthly = copying("copy", replace_rows()), copying("copy", replace_rows(), BY_MONTH, hundredfold)
    days, months = project_of(runtime, daily), project_of(runtime, monthly, "v2")
    run(days, daily, "2026-06-08")
    held = runtime.target._tables["shop.copy"].versions[-1]
    runtime.target._tables["shop.copy"].versions[-1] = replace(  # as a twice that remembered no cut has left it
        held, tokens={name: number for name, number in held.tokens.items() if not name.startswith("twice-cut")}
    )
    with meanwhile(lambda: run(months, monthly, "2026-06")), pytest.raises(Superseded, match="is cut by month since"):
        run(days, daily, "2026-06-09")
    assert all(amount % 100 == 0 for amount in amounts(runtime))


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
@pytest.mark.parametrize("first", [True, False], ids=["first under their cut", "later"])
def test_two_runs_of_one_task_and_one_cut_both_publish(runtime: RuntimeSetup, write: Strategy, first: bool) -> None:
    copy = copying("copy", write)
    context = project_of(runtime, copy)
    run(context, copy, "2026-06-07")
    if first:
        runtime.target._tables["shop.copy"].versions[-1] = replace(
            runtime.target._tables["shop.copy"].versions[-1], tokens={"twice/p/copy/2026-06-07": 1}
        )
    with meanwhile(lambda: run(context, copy, "2026-06-10")):
        assert run(context, copy, "2026-06-09") is Outcome.PUBLISHED
    assert amounts(runtime) == sorted(amount for _, _, amount in runtime.target.read(TableName("shop.orders")).rows)
    assert [run(context, copy, f"2026-06-{day}") for day in ("09", "10")] == [Outcome.ALREADY] * 2
    cuts = {name: held.generation for name, held in runtime.target.tokens(COPY, "twice-cut/").items()}
    assert cuts == {"twice-cut/p/copy": 1, "twice-cut/p/copy/day": 1}


def test_a_reset_that_looked_before_a_takeover_moves_no_mark(runtime: RuntimeSetup) -> None:
    feed, ingest = copying("feed", append_once(), Since("order_id", initial=0)), copying("ingest", append_once())
    theirs, ours = project_of(runtime, feed), project_of(runtime, ingest)
    run(theirs, feed, None)
    before = show_mark(theirs, feed)
    lost = pytest.raises(Superseded, match=r"feed\[.*\]: shop.copy was taken over by the task ingest while")
    with meanwhile(lambda: take_over(ours, ingest, WHO)), lost:
        reset_mark(theirs, feed, Reset(None, "ana", "again"))
    take_over(theirs, feed, HumanDecision("ana", "back"))
    assert show_mark(theirs, feed).at == before.at


def test_of_two_takeovers_at_once_one_lands(runtime: RuntimeSetup) -> None:
    """Both would have the same number: neither task would be told that it lost the table."""
    old, one, two = (copying(name, append_once()) for name in ("old", "one", "two"))
    run(project_of(runtime, old), old, "2026-06-09")
    turns = iter([lambda: take_over(project_of(runtime, two), two, WHO)])
    stage = runtime.target.stage

    def staging(*given: Any, **named: Any) -> Any:
        next(turns, dict)()
        return stage(*given, **named)

    runtime.target.stage = staging  # type: ignore[method-assign]
    with pytest.raises(Superseded, match="the table's slices were published, or it was taken over, meanwhile"):
        take_over(project_of(runtime, one), one, WHO)
    assert run(project_of(runtime, two), two, "2026-06-09") is Outcome.PUBLISHED


def test_a_takeover_from_before_it_was_watched_is_still_one(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = copying("old", append_once()), copying("new", append_once())
    theirs, ours = project_of(runtime, old), project_of(runtime, new)
    run(theirs, old, "2026-06-09")
    with monkeypatch.context() as earlier:
        unwatched = property(lambda note: {n: v for n, v in note.generations.items() if n != "twice-takeover"})
        earlier.setattr(CommitNote, "tokens", unwatched)
        take_over(ours, new, WHO)
    with pytest.raises(TableTaken, match="was taken over by the task new"):
        run(theirs, old, "2026-06-10")
    with meanwhile(lambda: take_over(theirs, old, WHO)), pytest.raises(Superseded, match="taken over by the task old"):
        run(ours, new, "2026-06-10")


def test_a_run_whose_cut_others_keep_writing_first_has_met_a_changed_table_and_is_not_quarantined(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copying("copy", replace_rows())
    context = project_of(runtime, copy)
    run(context, copy, "2026-06-08")
    names = ("twice/p/copy/2026-06-09", "twice-takeover", "twice-cut/p/copy")
    monkeypatch.setattr(runtime.target, "commit", lambda *_: Lost(runtime.target.published(COPY, names)))
    with pytest.raises(TableChanged, match="other runs changed the table while this one tried to publish"):
        run(context, copy, "2026-06-09")
    assert runtime.ledger.quarantined("copy") == {}
    monkeypatch.undo()
    assert run(context, copy, "2026-06-09") is Outcome.PUBLISHED
