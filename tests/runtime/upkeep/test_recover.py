"""recover asks the tables about everything that the ledger holds, whatever is declared by now, and goes on with the
rest where one of them does not answer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup, revenue_task, summed

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


def announcing(runtime: RuntimeSetup, sent: list[str]) -> Task:
    runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    effect = call(lambda result, key: sent.append(result.slice), keyed=False, name="announce")
    return runtime.declare(replace(revenue_task(), effects=(effect,)))


def killed(runtime: RuntimeSetup, declared: Task, point: Point) -> None:
    """And its lease runs out."""
    with pytest.raises(Crash), armed(crash_at(point)):
        runtime.run(declared)
    runtime.clock.ahead += timedelta(hours=1)


def begin_later(runtime: RuntimeSetup, declared: Task) -> Task:
    assert isinstance(declared.scope, Daily)
    return runtime.declare(replace(declared, scope=replace(declared.scope, start="2026-06-10")))


def test_what_landed_on_a_slice_that_the_task_has_no_more_is_recorded_and_its_effect_goes(
    runtime: RuntimeSetup,
) -> None:
    sent: list[str] = []
    declared = announcing(runtime, sent)
    killed(runtime, declared, Point.AFTER_PUBLISH)
    begin_later(runtime, declared)
    assert [end.state for end in recover(runtime.context, None)] == [AttemptState.PUBLISHED]
    assert sent == ["2026-06-09"]


def test_what_was_given_up_and_landed_on_such_a_slice_is_found_by_the_next_recover(runtime: RuntimeSetup) -> None:
    sent: list[str] = []
    declared = announcing(runtime, sent)
    with armed(lambda point: _given_up_at(runtime, declared, point)), pytest.raises(Crash):
        runtime.run(declared)
    assert [end.state for end in recover(runtime.context, None)] == [AttemptState.PUBLISHED]
    assert sent == ["2026-06-09"]


def _given_up_at(runtime: RuntimeSetup, declared: Task, point: object) -> None:
    if point is Point.PUBLISHING:
        runtime.clock.ahead += timedelta(hours=1)
        begin_later(runtime, declared)
        assert [end.state for end in recover(runtime.context, None)] == [AttemptState.ABANDONED]
    if point is Point.AFTER_PUBLISH:
        raise Crash


def test_what_did_not_land_on_such_a_slice_is_given_up_and_what_it_staged_goes(runtime: RuntimeSetup) -> None:
    sent: list[str] = []
    declared = announcing(runtime, sent)
    killed(runtime, declared, Point.AFTER_AUDIT)
    begin_later(runtime, declared)
    assert [end.state for end in recover(runtime.context, None)] == [AttemptState.ABANDONED]
    (gone,) = collect_garbage(runtime.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not runtime.leftovers and sent == [] and collect_garbage(runtime.context, None) == ()


def writing(runtime: RuntimeSetup, path: Path, table: str) -> RuntimeSetup:
    """The same project and tables, in which `revenue` writes this one."""
    owner = RecordOwner("p", "dev", {"revenue": TaskTable("dev", f"delta:{table}")})
    ledger = Ledger.open(f"sqlite:///{path}/ledger.db", runtime.clock, owner=owner)
    made = replace(runtime, context=replace(runtime.context, ledger=ledger))
    for declared in runtime.context.project.tasks.values():
        made.declare(replace(declared, target=TableName(table)))
    return made


def test_what_was_given_up_and_landed_in_a_table_that_the_task_wrote_before_is_found(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    sent: list[str] = []
    declared = announcing(runtime, sent)
    before, after = writing(runtime, tmp_path, "shop.revenue"), writing(runtime, tmp_path, "shop.moved")

    def given_up(point: object) -> None:
        if point is Point.PUBLISHING:
            runtime.clock.ahead += timedelta(hours=1)
            assert [end.state for end in recover(after.context, None)] == [AttemptState.ABANDONED]
        if point is Point.AFTER_PUBLISH:
            raise Crash

    with armed(given_up), pytest.raises(Crash):
        before.run(declared)
    assert [found.fix for found in check(after.context, None)] == ["twice gc"]
    assert [end.state for end in recover(after.context, None)] == [AttemptState.PUBLISHED]
    assert sent == ["2026-06-09"] and check(after.context, None) == ()


def test_what_did_not_land_in_such_a_table_is_given_up_and_what_it_staged_goes(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    declared = announcing(runtime, [])
    before, after = writing(runtime, tmp_path, "shop.revenue"), writing(runtime, tmp_path, "shop.moved")
    killed(before, declared, Point.AFTER_AUDIT)
    assert [end.state for end in recover(after.context, None)] == [AttemptState.ABANDONED]
    assert before.leftovers
    (gone,) = collect_garbage(after.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not before.leftovers and collect_garbage(after.context, None) == ()


AWAY = "shop.away: OSError: the server is away"


@pytest.fixture
def half_away(runtime: RuntimeSetup) -> tuple[RuntimeSetup, list[str]]:
    """Two tasks were killed right after their commit; the table of the first one cannot be asked any more."""
    sent: list[str] = []
    declared = announcing(runtime, sent)
    inputs = {"orders": read("shop.orders", by="order_date")}
    away = task("shop.away", scope=declared.scope, inputs=inputs, write=replace_rows(), name="away")(summed)
    runtime.context = replace(runtime.context, project=assemble("p", [away, declared]))
    for each in (away, declared):
        killed(runtime, each, Point.AFTER_PUBLISH)

    def target_of(table: TableName, session: Any) -> Any:
        if table.name == "shop.away":
            raise OSError("the server is away")
        return runtime.target

    runtime.context = replace(runtime.context, target_of=target_of)
    return runtime, sent


def test_one_table_that_cannot_be_asked_keeps_no_other_task_from_being_settled(
    half_away: tuple[RuntimeSetup, list[str]],
) -> None:
    runtime, sent = half_away
    result = recover(runtime.context, None)
    assert [(end.task, end.state) for end in result] == [("revenue", AttemptState.PUBLISHED)]
    assert sent == ["2026-06-09"]
    assert result.unasked == (AWAY,)
    assert str(result).endswith(f"; could not be read: {AWAY}")
    assert [attempt.task for attempt in runtime.ledger.open_attempts()] == ["away"]  # nobody knows whether it landed
    runtime.context = replace(runtime.context, target_of=lambda table, session: runtime.target)
    assert [(end.task, end.state) for end in recover(runtime.context, None)] == [("away", AttemptState.PUBLISHED)]


def test_nor_from_being_collected_or_pruned(half_away: tuple[RuntimeSetup, list[str]]) -> None:
    runtime, _ = half_away
    runtime.clock.ahead += timedelta(days=100)
    tidied = prune(runtime.context, None, timedelta(days=90))
    assert tidied.unasked == (AWAY,)
    assert [attempt.task for attempt in runtime.ledger.open_attempts()] == ["away"]
    (one,) = collect_garbage(runtime.context, None)
    assert (one.task, one.unasked, one.former) == ("away", AWAY, False)


def test_a_table_that_is_only_tidied_up_and_cannot_be_asked_is_named_too(
    half_away: tuple[RuntimeSetup, list[str]],
) -> None:
    runtime, _ = half_away
    (left,) = runtime.ledger.open_attempts("away")
    runtime.ledger.close_attempt(left.id, AttemptState.ABANDONED)
    runtime.ledger.discarded(left.id)
    assert collect_garbage(runtime.context, None)[0].task == "revenue"
    assert prune(runtime.context, None, timedelta(days=90)).unasked == (AWAY,)
