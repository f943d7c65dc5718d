"""Two rebuilds at once, and runs that wake up after the exchange: the table is the same as after one rebuild."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, revenue_task
from tests.runtime.rebuild.conftest import SIDE, Rebuilding, generation, with_tax

from twice.core.failure.failpoints import Point, armed
from twice.core.results.run import Outcome
from twice.core.task import Policy
from twice.errors import TwiceError

NEW = [(DAY, 15, 30), (NEXT, 7, 14)]


def once(point: Point, after: int, act: Callable[[], object]) -> Callable[[Any], None]:
    """Do it when that point was passed so often."""
    passed = [0]

    def act_there(at: Any) -> None:
        if at is point:
            passed[0] += 1
            if passed[0] == after + 1:
                act()

    return act_there


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize(
    ("point", "after"),
    [
        (Point.AFTER_PLAN, 0),
        (Point.AFTER_COMPUTE, 1),
        (Point.AFTER_COMPUTE, 2),
        (Point.IN_STAGE, 2),
        (Point.PUBLISHING, 2),
        (Point.AFTER_PUBLISH, 2),
    ],
)
def test_a_rebuild_that_another_one_overtakes_ends_well(shop: Rebuilding, point: Point, after: int, copy: bool) -> None:
    """The other one is the same rebuild, in another process; what it waits for has an hour to end."""
    declared = shop.declare(with_tax, policy=Policy())
    ends: list[object] = []

    def other() -> None:
        shop.runtime.clock.ahead += timedelta(hours=1)
        ends.append(shop.rebuild(declared, copy=copy))

    with armed(once(point, after, other)):
        try:
            shop.rebuild(declared, copy=copy)
        except TwiceError as error:
            assert ends, error
    old = [(day, revenue, None) for day, revenue, _ in NEW] if copy else NEW
    assert shop.runtime.revenue == old
    shop.runtime.clock.ahead += timedelta(hours=1)
    shop.rebuild(declared)
    assert shop.runtime.revenue == NEW
    assert shop.runtime.target.published(SIDE, ()).version is None
    assert not shop.runtime.leftovers
    assert shop.runtime.run(declared).outcome is Outcome.ALREADY


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("point", [Point.AFTER_LOOK, Point.AFTER_STAGE, Point.PUBLISHING])
def test_a_run_that_slept_through_a_rebuild_lands_nothing(shop: Rebuilding, point: Point, copy: bool) -> None:
    """A worker of a backfill, with the old code and the old columns."""
    old, before = revenue_task(), generation(shop, "2026-06-09")
    shop.runtime.put_orders((1, DAY, 100), (3, NEXT, 7))
    declared = shop.declare(with_tax, policy=Policy())
    shop.runtime.code[0] = "v1"

    def rebuild() -> None:
        shop.runtime.clock.ahead += timedelta(hours=1)
        shop.runtime.code[0] = "with_tax"
        shop.rebuild(declared, copy=copy)

    with armed(once(point, 0, rebuild)), pytest.raises(TwiceError):
        shop.runtime.run(old)
    held = [(DAY, 15, None), (NEXT, 7, None)] if copy else [(DAY, 100, 200), (NEXT, 7, 14)]
    assert shop.runtime.revenue == held
    assert generation(shop, "2026-06-09") == before + (0 if copy else 1)
    shop.runtime.clock.ahead += timedelta(hours=1)
    shop.runtime.run(declared)
    assert shop.runtime.revenue[0] == (DAY, 100, 200)
    assert not shop.runtime.leftovers
