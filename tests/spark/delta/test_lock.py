"""The lock on local file systems, seen from another process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.delta_house import DeltaHouse
from tests.contracts.target_suite import COLUMNS, DAY, REVENUE, commit, plan_of, prepare, publish, sale, together

from twice.core.failpoints import Point, armed
from twice.core.ports import Landed
from twice.errors import EnvironmentProblem

ROWS = [sale("2026-06-09", "eu", "1.00")]
TRY = "import fcntl,sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
HOLD = TRY + "; print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def house(spark: Any, tmp_path: Path) -> DeltaHouse:
    return DeltaHouse(spark, tmp_path, internal=True)


def lock_file(house: DeltaHouse) -> Path:
    return Path(house.locate(REVENUE)) / "_twice" / "lock"


def another_process_can_take_it(house: DeltaHouse) -> bool:
    command = [sys.executable, "-c", TRY, str(lock_file(house))]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def held_by_another_process(house: DeltaHouse) -> Iterator[None]:
    command = [sys.executable, "-c", HOLD, str(lock_file(house))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.communicate()


def impatient(house: DeltaHouse) -> Any:
    target: Any = house.target()
    target._wait = 0.2
    return target


def test_the_lock_is_held_while_a_commit_is_under_way_and_released_after(house: DeltaHouse) -> None:
    target = house.target()
    prepare(target)
    seen: list[bool] = []
    with armed(lambda point: seen.append(another_process_can_take_it(house)) if point is not Point.IN_STAGE else None):
        publish(house, target, ROWS, DAY, attempt="a")
    assert seen == [False, False]  # before and after the commit itself
    assert another_process_can_take_it(house)


def test_a_thread_that_only_looks_does_not_take_the_lock_from_its_holder(house: DeltaHouse) -> None:
    target, other = house.target(), impatient(house)
    prepare(target)
    seen: list[Any] = []

    def look(point: Point) -> None:
        if point is Point.BEFORE_COMMIT:
            # POSIX drops a process's locks on a file when it closes any descriptor of it.
            seen.extend(together(lambda: other.discard(REVENUE, "x", [DAY])))
            seen.append(another_process_can_take_it(house))

    with armed(look):
        assert isinstance(publish(house, target, ROWS, DAY, attempt="a"), Landed)
    assert isinstance(seen[0], EnvironmentProblem)
    assert seen[1] is False


def test_a_lock_held_elsewhere_for_too_long_is_an_error_that_names_it(house: DeltaHouse) -> None:
    target = impatient(house)
    prepare(target)
    staged = target.stage(REVENUE, house.frame(target, COLUMNS, ROWS), plan_of(DAY), "a")
    expected = {staged.plan.app_ids[0]: 0}
    with held_by_another_process(house), pytest.raises(EnvironmentProblem, match=r"_twice/lock") as stopped:
        commit(target, staged, expected)
    assert "The table is unchanged." in str(stopped.value)
    assert isinstance(commit(target, staged, expected), Landed)


def test_a_table_made_again_is_locked_by_its_new_file(house: DeltaHouse) -> None:
    target = house.target()
    prepare(target)
    publish(house, target, ROWS, DAY, attempt="a")
    shutil.rmtree(house.locate(REVENUE))
    prepare(target)
    seen: list[bool] = []
    with armed(lambda point: seen.append(another_process_can_take_it(house)) if point is not Point.IN_STAGE else None):
        publish(house, target, ROWS, DAY, attempt="b")
    assert seen == [False, False]
