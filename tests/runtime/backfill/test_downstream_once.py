"""A backfill publishes a slice below once, also where nobody can compare its inputs; and never leaves it at the rows
that a run has read which began before what it reads was made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.backfill.test_silent_worker import Unversioned
from tests.runtime.conftest import DAY, NEXT, RuntimeSetup, revenue_task
from tests.runtime.effects.test_effects import NEVER_GONE
from tests.runtime.starting import start

from twice import Daily, PublishedSlice, call, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillRequest
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.project.project import assemble
from twice.core.task import Policy, TableName, Task
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.run.run_task import run_task
from twice.senders.call import CallSender

EVERY = ("missing", "failed", "stale", "published")


def report(sent: list[PublishedSlice], policy: Policy | None) -> Task:
    return task(
        "shop.report",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"revenue": read("shop.revenue", by="order_date")},
        write=replace_rows(),
        policy=policy,
        effects=[call(lambda result, key: sent.append(result), keyed=False, name="tell", again="on_restate")],
        name="report",
    )(lambda revenue: revenue)


def declare(runtime: RuntimeSetup, sent: list[PublishedSlice], policy: Policy | None = None) -> Task:
    below = report(sent, policy)
    project = assemble("p", [revenue_task(), below])
    runtime.context = replace(runtime.context, project=project, senders={"call": CallSender()}, holder=NEVER_GONE)
    if policy is None:
        runtime.context = replace(runtime.context, engine=Unversioned())
    return below


def day_and_below(**options: Any) -> BackfillRequest:
    asked = BackfillRequest("revenue", "2026-06-09", "2026-06-09", batch="off", downstream=True, silent=False)
    return replace(asked, **options)


def killed_below_at(runtime: RuntimeSetup, name: str, point: Point) -> None:
    """A worker that is killed in its second batch."""
    done: list[Event] = []

    def kill(passed: Any) -> None:
        if passed is point and done:
            raise Crash

    with pytest.raises(Crash), armed(kill):
        work(runtime.context, name, done.append, Stop.never())


@pytest.mark.parametrize("policy", [None, Policy(rerun="always")], ids=["no versions", "always"])
@pytest.mark.parametrize("point", [Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH])
def test_a_slice_below_is_published_once_though_its_worker_was_killed_right_after(
    runtime: RuntimeSetup, point: Point, policy: Policy | None
) -> None:
    sent: list[PublishedSlice] = []
    declare(runtime, sent, policy)
    record, _ = start(runtime.context, day_and_below())
    killed_below_at(runtime, record.name, point)
    runtime.clock.ahead += runtime.context.lease * 2
    done = work(runtime.context, record.name, lambda event: None, Stop.never())
    assert done.complete
    assert [run.generation for run in runtime.ledger.runs("report")] == [1]
    assert len(sent) == 1


def test_a_run_that_began_before_its_input_was_made_and_publishes_later_does_not_stand_for_the_backfill(
    runtime: RuntimeSetup,
) -> None:
    below = declare(runtime, [])
    slice_ = below.scope.slice_of("2026-06-09")  # type: ignore[union-attr]
    run_task(runtime.context, revenue_task(), (slice_,))
    record, _ = start(runtime.context, day_and_below(only=EVERY, restate=True))
    began: list[Any] = []

    def meanwhile(passed: Any) -> None:
        if passed is Point.AFTER_COMPUTE and not began:
            began.append(passed)
            runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, NEXT, 7), (4, DAY, 100))
            killed_below_at(runtime, record.name, Point.AFTER_PLAN)

    with armed(meanwhile):
        run_task(runtime.context, below, (slice_,))
    table = TableName("shop.report")
    assert runtime.target.read(table).rows == ((DAY, 15),)
    runtime.clock.ahead += runtime.context.lease * 2
    work(runtime.context, record.name, lambda event: None, Stop.never())
    assert runtime.target.read(table).rows == ((DAY, 115),)
