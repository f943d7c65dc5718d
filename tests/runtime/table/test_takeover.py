"""A table has one task. Another one, or the same under a new name, is refused until a person says which it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.endings import Ending, end_at
from tests.runtime.conftest import DAY, RuntimeSetup, losing_the_reply

from twice import Daily, Since, append_once, insert_new, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Point, armed
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.slice import Slice
from twice.core.task import Strategy, TableName, Task
from twice.errors import (
    DeclarationError,
    LedgerOutOfReach,
    NotRecorded,
    OutcomeUnknown,
    Superseded,
    TableTaken,
    UsageError,
)
from twice.ledgers.ledger import Ledger
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.check import LedgerDifference, check
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.takeover import take_over
from twice.targets.memory.rows import Rows

COPY = TableName("shop.copy")
EVERY: list[Strategy] = [replace_rows(), merge("order_id", newest_by="amount"), insert_new("order_id"), append_once()]
WHO = HumanDecision("ana", "it was ours all along")


def copying(name: str, write: Strategy, formerly: tuple[str, ...] = ()) -> Task:
    declare = task(
        "shop.copy",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=write,
        name=name,
        formerly=formerly,
    )
    return declare(lambda orders: orders)


def feeding(name: str, formerly: tuple[str, ...] = ()) -> Task:
    declare = task(
        "shop.copy",
        scope=Since("order_id", initial=0),
        inputs={"orders": read("shop.orders", by="order_id")},
        write=append_once(),
        name=name,
        formerly=formerly,
    )
    return declare(lambda orders: orders)


def run(runtime: RuntimeSetup, declared: Task, project: str = "p") -> Outcome:
    runtime.context = replace(runtime.context, project=assemble(project, [declared]))
    return run_task(runtime.context, declared, slices_of(declared)).outcome


def slices_of(declared: Task) -> tuple[Slice, ...]:
    scope = declared.scope
    return (scope.only,) if isinstance(scope, Since) else (scope.slice_of("2026-06-09"),)  # type: ignore[union-attr]


def rows(runtime: RuntimeSetup) -> int:
    found: Rows = runtime.target.read(COPY)
    return len(found.rows)


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_a_renamed_task_is_refused_and_formerly_lets_it_go_on(runtime: RuntimeSetup, write: Strategy) -> None:
    run(runtime, copying("trips_raw", write))
    before = runtime.target.published(COPY, ())
    with pytest.raises(TableTaken) as refused:
        run(runtime, copying("ingest_trips", write))
    assert str(refused.value) == (
        "ingest_trips[2026-06-09]: shop.copy holds 1 slice that was published by the task trips_raw. "
        "The table is unchanged. "
        'If ingest_trips is its new name, write formerly=("trips_raw",) on the task. If this is a different '
        'task that should own the table from now on (existing rows stay): twice takeover ingest_trips --reason "…".'
    )
    assert refused.value.exit_code == 2
    assert runtime.target.published(COPY, ()) == before
    assert runtime.ledger.attempts("ingest_trips")[0].state is AttemptState.FAILED
    assert run(runtime, copying("ingest_trips", write, ("trips_raw",))) is Outcome.ALREADY
    assert rows(runtime) == 2


def test_a_renamed_incremental_task_is_refused_and_formerly_keeps_its_mark(runtime: RuntimeSetup) -> None:
    run(runtime, feeding("feed"))
    with pytest.raises(TableTaken, match="1 slice that was published by the task feed"):
        run(runtime, feeding("stream"))
    with pytest.raises(TableTaken):
        reset_mark(runtime.context, feeding("stream"), Reset(None, "ana", "why not"))
    assert run(runtime, feeding("stream", ("feed",))) is Outcome.NOTHING_NEW


def test_the_mark_of_a_table_that_is_anothers_is_refused_as_a_run_is(runtime: RuntimeSetup) -> None:
    run(runtime, feeding("feed"))
    assert show_mark(runtime.context, feeding("feed")).at == "3"
    with pytest.raises(TableTaken) as ran:
        run(runtime, feeding("stream"))
    with pytest.raises(TableTaken) as shown:
        show_mark(runtime.context, feeding("stream"))
    assert (shown.value.where, shown.value.what, shown.value.fix) == ("stream", ran.value.what, ran.value.fix)
    assert show_mark(runtime.context, feeding("stream", ("feed",))).at == "3"


def test_a_table_of_another_project_is_refused_with_the_project_it_belongs_to(runtime: RuntimeSetup) -> None:
    run(runtime, copying("copy", append_once()))
    with pytest.raises(TableTaken) as refused:
        run(runtime, copying("copy", append_once()), project="q")
    assert "published by the task copy of the project p" in refused.value.what
    assert 'If only its id was changed, put it back in twice.toml: project = "p".' in refused.value.fix
    assert "twice takeover copy" in refused.value.fix


@pytest.mark.parametrize(("first", "second"), [("trips", "trips_raw"), ("trips_raw", "trips")])
def test_a_task_whose_name_begins_like_anothers_is_another(runtime: RuntimeSetup, first: str, second: str) -> None:
    run(runtime, copying(first, append_once()))
    with pytest.raises(TableTaken, match=f"published by the task {first}$|published by the task {first}\\."):
        run(runtime, copying(second, append_once()))


def test_the_oldest_name_stands_first_in_formerly_and_the_error_says_so(runtime: RuntimeSetup) -> None:
    run(runtime, copying("a", append_once()))
    assert run(runtime, copying("b", append_once(), ("a",))) is Outcome.ALREADY
    for formerly in (("b",), ("b", "a")):
        with pytest.raises(TableTaken, match=r'formerly=\("a", "b"\)'):
            run(runtime, copying("c", append_once(), formerly))
    assert run(runtime, copying("c", append_once(), ("a", "b"))) is Outcome.ALREADY


def test_formerly_on_a_task_that_published_under_its_own_name_is_refused(runtime: RuntimeSetup) -> None:
    """Its tokens would be looked for under the older name, and everything appended again."""
    run(runtime, copying("a", append_once()))
    with pytest.raises(TableTaken, match=r"It was published under the name it has: leave out formerly=\(\"b\",\)"):
        run(runtime, copying("a", append_once(), ("b",)))


@pytest.mark.parametrize(("name", "formerly"), [("a", ("b",)), ("c", ())])
def test_check_says_of_a_table_that_is_anothers_what_a_run_says_and_nothing_of_its_slices(
    runtime: RuntimeSetup, name: str, formerly: tuple[str, ...]
) -> None:
    run(runtime, copying("a", append_once()))
    assert check(runtime.context, None) == ()
    other = copying(name, append_once(), formerly)
    runtime.context = replace(runtime.context, project=assemble("p", [other]))
    found = check(runtime.context, None)
    with pytest.raises(TableTaken) as refused:
        run(runtime, other)
    assert found == (LedgerDifference(name, refused.value.what, refused.value.fix),)


def test_only_a_look_that_finds_its_own_table_gathers_a_renamed_tasks_records(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    def opened(name: str, *names: str) -> None:
        tables = {name: TaskTable("here", "memory:shop.copy", names=names)}
        ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", owner=RecordOwner("p", "here", tables))
        runtime.context = replace(runtime.context, ledger=ledger)

    def history(name: str) -> list[str]:
        return [attempt.state.value for attempt in runtime.ledger.attempts(name)]

    opened("a")
    run(runtime, copying("a", append_once()))
    runtime.ledger.rename("a", "b")  # as an earlier version did when it opened the ledger
    opened("c", "b", "c")
    with pytest.raises(TableTaken):
        run(runtime, copying("c", append_once(), ("b",)))
    opened("b")
    assert history("b") == ["failed", "published"]
    opened("b", "a", "b")
    explain(runtime.context, copying("b", append_once(), ("a",)), slices_of(copying("b", append_once()))[0])
    opened("a")
    assert history("a") == []
    opened("b", "a", "b")
    assert run(runtime, copying("b", append_once(), ("a",))) is Outcome.ALREADY
    assert history("b") == ["unchanged", "failed", "published"]
    opened("a")
    assert run(runtime, copying("a", append_once())) is Outcome.ALREADY
    assert history("a") == ["unchanged", "unchanged", "failed", "published"]


def test_plan_and_backfill_refuse_what_a_run_would_refuse(runtime: RuntimeSetup) -> None:
    run(runtime, copying("old", append_once()))
    declared = copying("new", append_once())
    runtime.declare(declared)
    with pytest.raises(TableTaken):
        explain(runtime.context, declared, slices_of(declared)[0])
    with pytest.raises(TableTaken):
        slice_statuses(runtime.context, declared, slices_of(declared), None)


@pytest.mark.parametrize("ending", Ending)
def test_a_takeover_that_landed_is_recorded_whatever_comes_right_after_it(
    runtime: RuntimeSetup, ending: Ending
) -> None:
    run(runtime, copying("old", append_once()))
    declared = runtime.declare(copying("new", append_once()))
    end = end_at(Point.AFTER_COMMIT, ending, lambda: take_over(runtime.context, declared, WHO))
    assert isinstance(end, BaseException) == (ending is not Ending.ERROR), repr(end)
    assert not isinstance(end, Exception), repr(end)
    assert [(one.kind, one.state) for one in runtime.ledger.attempts("new")] == [("takeover", AttemptState.PUBLISHED)]
    assert take_over(runtime.context, declared, WHO) == {}


def test_a_takeover_of_which_the_table_cannot_be_asked_says_that_it_may_have_landed(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(runtime, copying("old", append_once()))
    declared = runtime.declare(copying("new", append_once()))
    with pytest.raises(OutcomeUnknown) as failed, losing_the_reply(runtime, monkeypatch):
        take_over(runtime.context, declared, WHO)
    assert str(failed.value) == (
        "new: ValueError while the table was being taken over, and the table cannot be read: the warehouse is away. "
        "The table may already be this task's. Run it again: it will look first."
    )


def test_a_takeover_is_asked_for_once_and_recorded_in_the_table_and_the_ledger(runtime: RuntimeSetup) -> None:
    run(runtime, copying("old", append_once()))
    declared = runtime.declare(copying("new", append_once()))
    assert take_over(runtime.context, declared, WHO) == {"the task old": 1}
    kept = runtime.ledger.attempts("new")[0]
    assert (kept.kind, kept.state) == ("takeover", AttemptState.PUBLISHED)
    assert kept.why == "shop.copy taken over from the task old (1 slice) by ana: it was ours all along"
    note = runtime.target.provenance(COPY, "twice-takeover/p/new/p/old", 1)
    assert note is not None and note.why == kept.why
    assert run(runtime, declared) is Outcome.PUBLISHED
    assert run(runtime, declared) is Outcome.ALREADY
    assert rows(runtime) == 4  # beside the rows that were there: that is what was asked for
    assert take_over(runtime.context, declared, WHO) == {}
    assert len([a for a in runtime.ledger.attempts("new") if a.kind == "takeover"]) == 1
    assert not runtime.ledger.open_attempts() and not runtime.ledger.undiscarded()


def test_who_lost_a_table_is_refused_until_it_takes_it_back_and_then_computes_again(runtime: RuntimeSetup) -> None:
    """The other has written over its slice: that it was published once says nothing of the rows that are there."""
    old, new = copying("old", replace_rows()), copying("new", replace_rows())
    new = replace(new, function=lambda orders: replace(orders, rows=orders.rows[:1]))
    run(runtime, old)
    runtime.declare(new)
    take_over(runtime.context, new, WHO)
    run(runtime, new)
    assert rows(runtime) == 1
    with pytest.raises(TableTaken):
        run(runtime, old)
    runtime.declare(old)
    take_over(runtime.context, old, WHO)
    assert run(runtime, old) is Outcome.PUBLISHED
    assert rows(runtime) == 2
    assert run(runtime, old) is Outcome.ALREADY
    with pytest.raises(TableTaken):
        run(runtime, new)


def test_a_run_that_loses_to_a_takeover_is_superseded_since_nobody_published_its_rows(runtime: RuntimeSetup) -> None:
    old, new = copying("old", replace_rows()), copying("new", replace_rows())
    run(runtime, new)
    runtime.put_orders((1, DAY, 10), (2, DAY, 6))
    taken: list[object] = []

    def taken_and_taken_back(point: object) -> None:
        if point is Point.PUBLISHING and not taken:
            taken.append(take_over(runtime.context, old, WHO))
            run(runtime, old)
            taken.append(take_over(runtime.context, new, WHO))

    with armed(taken_and_taken_back), pytest.raises(Superseded) as lost:
        run(runtime, new)
    assert str(lost.value).startswith("new[2026-06-09]: the table was taken over meanwhile (attempt ")
    assert str(lost.value).endswith(
        "None of this run's rows are in the table. Run it again: it looks first whose the table is."
    )
    assert run(runtime, new) is Outcome.PUBLISHED


def test_a_ledger_that_cannot_record_a_takeover_leaves_it_to_the_table(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = copying("old", append_once()), copying("new", append_once())
    run(runtime, old)

    def away(*_: Any, **__: Any) -> None:
        raise LedgerOutOfReach("the ledger's server is away")

    monkeypatch.setattr(runtime.ledger, "record_takeover", away)
    with pytest.raises(NotRecorded) as failed:
        take_over(runtime.context, runtime.declare(new), WHO)
    assert str(failed.value) == (
        "new: the table is taken over, but the ledger could not record it: the ledger's server is away. The table is "
        "this task's. Run it again: it will look first. The table records its owner."
    )
    monkeypatch.undo()
    assert take_over(runtime.context, new, WHO) == {}
    with pytest.raises(TableTaken):
        run(runtime, old)


def test_who_lost_a_table_is_refused_before_its_taker_has_published_anything(runtime: RuntimeSetup) -> None:
    """Else both append the same slice."""
    old, new = copying("old", append_once()), copying("new", append_once())
    run(runtime, old)
    runtime.declare(new)
    take_over(runtime.context, new, WHO)
    with pytest.raises(TableTaken) as refused:
        run(runtime, old)
    assert str(refused.value) == (
        "old[2026-06-09]: shop.copy was taken over by the task new. The table is unchanged. "
        "If old should own the table again, with the rows that are in it: "
        'twice takeover old --reason "…".'
    )
    runtime.declare(old)
    assert take_over(runtime.context, old, WHO) == {"the task new": 0}
    assert run(runtime, old) is Outcome.ALREADY
    with pytest.raises(TableTaken):
        run(runtime, new)
    assert rows(runtime) == 2


def test_a_table_is_taken_over_also_from_a_taker_that_has_published_nothing(runtime: RuntimeSetup) -> None:
    """Else the first and the second taker both take it for theirs."""
    first, second = copying("first", append_once()), copying("second", append_once())
    run(runtime, copying("old", append_once()))
    take_over(runtime.context, runtime.declare(first), WHO)
    with pytest.raises(TableTaken, match=r"1 slice that was published by the task old, was taken over by the task fir"):
        run(runtime, second)
    assert take_over(runtime.context, runtime.declare(second), WHO) == {"the task first": 0, "the task old": 1}
    with pytest.raises(TableTaken, match="taken over by the task second"):
        run(runtime, first)
    assert run(runtime, second) is Outcome.PUBLISHED


def test_a_takeover_of_a_table_that_nobody_else_wrote_changes_nothing(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(copying("new", append_once()))
    with pytest.raises(UsageError, match=r"there is no table shop\.copy"):
        take_over(runtime.context, declared, WHO)
    run(runtime, declared)
    version = runtime.target.published(COPY, ()).version
    assert take_over(runtime.context, declared, WHO) == {}
    assert runtime.target.published(COPY, ()).version == version


def test_tokens_of_other_systems_are_nobodys(runtime: RuntimeSetup) -> None:
    """A streaming query keeps its own, by any name."""
    declared = copying("copy", append_once())
    runtime.put(COPY, Rows(runtime.target.read(TableName("shop.orders")).columns))
    assert run(runtime, declared) is Outcome.PUBLISHED


def test_no_task_may_have_been_one_that_still_is() -> None:
    kept = task("shop.kept", scope=Daily("d", start="2026-01-01"), write=replace_rows(), name="kept")(lambda: None)
    renamed = copying("new", replace_rows(), ("first", "kept"))
    with pytest.raises(DeclarationError, match="new was kept once, and kept is a task of this project"):
        assemble("p", [kept, renamed])
