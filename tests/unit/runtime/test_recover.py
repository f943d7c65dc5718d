"""recover asks the tables about everything that the ledger holds, whatever is declared by now, and goes on with the
rest where one of them does not answer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from twice import call
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.task import TableName, Task
from twice.ledgers.ledger import Ledger
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.check import check
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

from .conftest import Bench, revenue_task


def telling(bench: Bench, told: list[str]) -> Task:
    bench.context = replace(bench.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    effect = call(lambda result, key: told.append(result.slice), keyed=False, name="tell")
    return bench.declare(replace(revenue_task(), effects=(effect,)))


def killed(bench: Bench, declared: Task, point: Point) -> None:
    """And its lease runs out."""
    with pytest.raises(Crash), armed(crash_at(point)):
        bench.run(declared)
    bench.clock.ahead += timedelta(hours=1)


def begin_later(bench: Bench, declared: Task) -> Task:
    return bench.declare(replace(declared, scope=replace(declared.scope, start="2026-06-10")))  # type: ignore[call-arg]


def test_what_landed_on_a_slice_that_the_task_has_no_more_is_recorded_and_its_effect_goes(bench: Bench) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    killed(bench, declared, Point.AFTER_PUBLISH)
    begin_later(bench, declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.PUBLISHED]
    assert told == ["2026-06-09"]


def test_what_was_given_up_and_landed_on_such_a_slice_is_found_by_the_next_recover(bench: Bench) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    with armed(lambda point: _given_up_at(bench, declared, point)), pytest.raises(Crash):
        bench.run(declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.PUBLISHED]
    assert told == ["2026-06-09"]


def _given_up_at(bench: Bench, declared: Task, point: object) -> None:
    if point is Point.PUBLISHING:
        bench.clock.ahead += timedelta(hours=1)
        begin_later(bench, declared)
        assert [end.state for end in recover(bench.context, None)] == [AttemptState.ABANDONED]
    if point is Point.AFTER_PUBLISH:
        raise Crash


def test_what_did_not_land_on_such_a_slice_is_given_up_and_what_it_staged_goes(bench: Bench) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    killed(bench, declared, Point.AFTER_AUDIT)
    begin_later(bench, declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.ABANDONED]
    (gone,) = collect_garbage(bench.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not bench.leftovers and told == [] and collect_garbage(bench.context, None) == ()


def writing(bench: Bench, path: Path, table: str) -> Bench:
    """The same project and tables, in which `revenue` writes this one."""
    owner = RecordOwner("p", "dev", {"revenue": TaskTable("dev", f"delta:{table}")})
    ledger = Ledger.open(f"sqlite:///{path}/ledger.db", bench.clock, owner=owner)
    made = replace(bench, context=replace(bench.context, ledger=ledger))
    for declared in bench.context.project.tasks.values():
        made.declare(replace(declared, target=TableName(table)))
    return made


def test_what_was_given_up_and_landed_in_a_table_that_the_task_wrote_before_is_found(
    bench: Bench, tmp_path: Path
) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    before, after = writing(bench, tmp_path, "shop.revenue"), writing(bench, tmp_path, "shop.moved")

    def given_up(point: object) -> None:
        if point is Point.PUBLISHING:
            bench.clock.ahead += timedelta(hours=1)
            assert [end.state for end in recover(after.context, None)] == [AttemptState.ABANDONED]
        if point is Point.AFTER_PUBLISH:
            raise Crash

    with armed(given_up), pytest.raises(Crash):
        before.run(declared)
    assert [found.fix for found in check(after.context, None)] == ["twice gc"]
    assert [end.state for end in recover(after.context, None)] == [AttemptState.PUBLISHED]
    assert told == ["2026-06-09"] and check(after.context, None) == ()


def test_what_did_not_land_in_such_a_table_is_given_up_and_what_it_staged_goes(bench: Bench, tmp_path: Path) -> None:
    declared = telling(bench, [])
    before, after = writing(bench, tmp_path, "shop.revenue"), writing(bench, tmp_path, "shop.moved")
    killed(before, declared, Point.AFTER_AUDIT)
    assert [end.state for end in recover(after.context, None)] == [AttemptState.ABANDONED]
    assert before.leftovers
    (gone,) = collect_garbage(after.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not before.leftovers and collect_garbage(after.context, None) == ()
