"""recover asks the tables about everything that the ledger holds, whatever is declared by now, and goes on with the
rest where one of them does not answer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from twice import Daily, call, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.project.project import assemble
from twice.core.task import TableName, Task
from twice.ledgers.ledger import Ledger
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.check import check
from twice.runtime.upkeep.prune import prune
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

from .conftest import Bench, revenue_task, summed


def announcing(bench: Bench, sent: list[str]) -> Task:
    bench.context = replace(bench.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    effect = call(lambda result, key: sent.append(result.slice), keyed=False, name="announce")
    return bench.declare(replace(revenue_task(), effects=(effect,)))


def killed(bench: Bench, declared: Task, point: Point) -> None:
    """And its lease runs out."""
    with pytest.raises(Crash), armed(crash_at(point)):
        bench.run(declared)
    bench.clock.ahead += timedelta(hours=1)


def begin_later(bench: Bench, declared: Task) -> Task:
    assert isinstance(declared.scope, Daily)
    return bench.declare(replace(declared, scope=replace(declared.scope, start="2026-06-10")))


def test_what_landed_on_a_slice_that_the_task_has_no_more_is_recorded_and_its_effect_goes(bench: Bench) -> None:
    sent: list[str] = []
    declared = announcing(bench, sent)
    killed(bench, declared, Point.AFTER_PUBLISH)
    begin_later(bench, declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.PUBLISHED]
    assert sent == ["2026-06-09"]


def test_what_was_given_up_and_landed_on_such_a_slice_is_found_by_the_next_recover(bench: Bench) -> None:
    sent: list[str] = []
    declared = announcing(bench, sent)
    with armed(lambda point: _given_up_at(bench, declared, point)), pytest.raises(Crash):
        bench.run(declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.PUBLISHED]
    assert sent == ["2026-06-09"]


def _given_up_at(bench: Bench, declared: Task, point: object) -> None:
    if point is Point.PUBLISHING:
        bench.clock.ahead += timedelta(hours=1)
        begin_later(bench, declared)
        assert [end.state for end in recover(bench.context, None)] == [AttemptState.ABANDONED]
    if point is Point.AFTER_PUBLISH:
        raise Crash


def test_what_did_not_land_on_such_a_slice_is_given_up_and_what_it_staged_goes(bench: Bench) -> None:
    sent: list[str] = []
    declared = announcing(bench, sent)
    killed(bench, declared, Point.AFTER_AUDIT)
    begin_later(bench, declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.ABANDONED]
    (gone,) = collect_garbage(bench.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not bench.leftovers and sent == [] and collect_garbage(bench.context, None) == ()


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
    sent: list[str] = []
    declared = announcing(bench, sent)
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
    assert sent == ["2026-06-09"] and check(after.context, None) == ()


def test_what_did_not_land_in_such_a_table_is_given_up_and_what_it_staged_goes(bench: Bench, tmp_path: Path) -> None:
    declared = announcing(bench, [])
    before, after = writing(bench, tmp_path, "shop.revenue"), writing(bench, tmp_path, "shop.moved")
    killed(before, declared, Point.AFTER_AUDIT)
    assert [end.state for end in recover(after.context, None)] == [AttemptState.ABANDONED]
    assert before.leftovers
    (gone,) = collect_garbage(after.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not before.leftovers and collect_garbage(after.context, None) == ()


AWAY = "shop.away: OSError: the server is away"


@pytest.fixture
def half_away(bench: Bench) -> tuple[Bench, list[str]]:
    """Two tasks were killed right after their commit; the table of the first one cannot be asked any more."""
    sent: list[str] = []
    declared = announcing(bench, sent)
    inputs = {"orders": read("shop.orders", by="order_date")}
    away = task("shop.away", scope=declared.scope, inputs=inputs, write=replace_rows(), name="away")(summed)
    bench.context = replace(bench.context, project=assemble("p", [away, declared]))
    for each in (away, declared):
        killed(bench, each, Point.AFTER_PUBLISH)

    def target_of(table: TableName, session: Any) -> Any:
        if table.name == "shop.away":
            raise OSError("the server is away")
        return bench.target

    bench.context = replace(bench.context, target_of=target_of)
    return bench, sent


def test_one_table_that_cannot_be_asked_keeps_no_other_task_from_being_settled(
    half_away: tuple[Bench, list[str]],
) -> None:
    bench, sent = half_away
    result = recover(bench.context, None)
    assert [(end.task, end.state) for end in result] == [("revenue", AttemptState.PUBLISHED)]
    assert sent == ["2026-06-09"]
    assert result.unasked == (AWAY,)
    assert str(result).endswith(f"; could not be read: {AWAY}")
    assert [attempt.task for attempt in bench.ledger.open_attempts()] == ["away"]  # nobody knows whether it landed
    bench.context = replace(bench.context, target_of=lambda table, session: bench.target)
    assert [(end.task, end.state) for end in recover(bench.context, None)] == [("away", AttemptState.PUBLISHED)]


def test_nor_from_being_collected_or_pruned(half_away: tuple[Bench, list[str]]) -> None:
    bench, _ = half_away
    bench.clock.ahead += timedelta(days=100)
    tidied = prune(bench.context, None, timedelta(days=90))
    assert tidied.unasked == (AWAY,)
    assert [attempt.task for attempt in bench.ledger.open_attempts()] == ["away"]
    (one,) = collect_garbage(bench.context, None)
    assert (one.task, one.unasked, one.former) == ("away", AWAY, False)


def test_a_table_that_is_only_tidied_up_and_cannot_be_asked_is_named_too(half_away: tuple[Bench, list[str]]) -> None:
    bench, _ = half_away
    (left,) = bench.ledger.open_attempts("away")
    bench.ledger.close_attempt(left.id, AttemptState.ABANDONED)
    bench.ledger.discarded(left.id)
    assert collect_garbage(bench.context, None)[0].task == "revenue"
    assert prune(bench.context, None, timedelta(days=90)).unasked == (AWAY,)
