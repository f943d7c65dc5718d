"""gc: the tables that dead rebuilds and adoptions have left beside those of tasks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, REVENUE, RuntimeSetup, revenue_task
from tests.runtime.rebuild.conftest import SIDE, Rebuilding, as_text
from tests.runtime.upkeep.test_adopt import adopted, made_elsewhere

from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.ports import Column
from twice.runtime.upkeep.left_copies import LeftCopy, collect_copies
from twice.targets.memory.rows import Rows

GONE = LeftCopy("revenue", "shop.revenue__rebuild")


@pytest.fixture(scope="module")
def dead() -> str:
    """A process of this machine that has ended."""
    code = "from twice.runtime.holder import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def dying(runtime: RuntimeSetup, holder: str, point: Point, passes: int) -> Any:
    """As that process, killed when it comes by for the last of so many times."""
    runtime.context = replace(runtime.context, holder=holder)
    left = [passes]

    def die(passed: Any) -> None:
        if passed is point:
            left[0] -= 1
            if not left[0]:
                raise Crash("killed")

    return armed(die)


def test_the_copy_of_a_dead_adoption_is_dropped_with_all_it_brought_into_the_table(
    runtime: RuntimeSetup, dead: str
) -> None:
    made_elsewhere(runtime, partitioned=False)
    runtime.declare(revenue_task())
    with dying(runtime, dead, Point.BEFORE_COMMIT, 2), pytest.raises(Crash):
        adopted(runtime, lay_out=True)
    assert collect_copies(runtime.context, None) == (GONE,)
    assert runtime.target.published(SIDE, ()).version is None
    target = runtime.target
    assert not [key for key in target._staged if key[0] == REVENUE.name and target.leftovers(REVENUE, key[1])]
    assert collect_copies(runtime.context, None) == ()


def test_the_copy_of_an_adoption_that_may_be_at_work_is_named_and_stays(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    runtime.declare(revenue_task())
    with dying(runtime, "elsewhere/1:2:3", Point.BEFORE_COMMIT, 2), pytest.raises(Crash):
        adopted(runtime, lay_out=True)
    (left,) = collect_copies(runtime.context, None)
    assert left.kept == "elsewhere/1:2:3 may be at work on it; the next adopt or rebuild drops it"
    assert runtime.target.published(SIDE, ()).version is not None


def test_what_a_dead_rebuild_has_filled_is_named_and_stays(runtime: RuntimeSetup, tmp_path: Path, dead: str) -> None:
    runtime.run(runtime.declare(revenue_task()))
    rebuilding = Rebuilding(runtime, tmp_path, [])
    declared = rebuilding.declare(as_text)
    with dying(runtime, dead, Point.AFTER_FINISH, 1), pytest.raises(Crash):
        rebuilding.rebuild(declared)
    (left,) = collect_copies(runtime.context, None)
    assert left.kept == "1 slice of a rebuild are in it: go on with twice rebuild revenue, or drop it with --abandon"
    rebuilding.rebuild(declared)
    assert collect_copies(runtime.context, None) == ()


def test_what_a_dead_rebuild_has_exchanged_already_is_dropped(runtime: RuntimeSetup, tmp_path: Path, dead: str) -> None:
    runtime.run(runtime.declare(revenue_task()))
    rebuilding = Rebuilding(runtime, tmp_path, [])
    declared = rebuilding.declare(as_text)
    with dying(runtime, dead, Point.AFTER_FINISH, 2), pytest.raises(Crash):
        rebuilding.rebuild(declared)
    assert runtime.revenue == [(DAY, "15", 2)]
    assert collect_copies(runtime.context, None) == (GONE,)
    assert runtime.target.published(SIDE, ()).version is None


def test_a_table_of_somebody_else_is_neither_named_nor_dropped(runtime: RuntimeSetup) -> None:
    runtime.run(runtime.declare(revenue_task()))
    runtime.put(SIDE, Rows((Column("x", "bigint"),), ((1,),)))
    assert collect_copies(runtime.context, None) == ()
    assert runtime.target.read(SIDE).rows == ((1,),)


def test_a_table_that_cannot_be_read_does_not_hide_the_others(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.declare(revenue_task())

    def away(*_: Any) -> Any:
        raise OSError("the warehouse is away")

    monkeypatch.setattr(runtime.target, "published", away)
    (left,) = collect_copies(runtime.context, None)
    assert left.kept == "it could not be read: shop.revenue: OSError: the warehouse is away"
