"""Crash at every failpoint on real Delta, then a plain rerun: the clean table, one commit per generation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from twice import Outcome
from twice.config import load
from twice.core.failpoints import Crash, Point, armed, crash_at
from twice.wiring import OpenProject

from .conftest import until
from .tables import loose_files, rows, tokens

DAY = "2026-06-09"
KILLED_AT = (Point.AFTER_CLAIM, Point.AFTER_AUDIT, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, Point.AFTER_PUBLISH)
LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)


@pytest.fixture
def opened(project: Path) -> Iterator[OpenProject]:
    opened = OpenProject(load(project, None))
    yield opened
    opened.close()


def clean(spark: Any, project: Path) -> list[tuple[Any, ...]]:
    """What the slice must hold, computed from the source by plain Spark."""
    orders = spark.read.format("delta").load(str(project / "warehouse/shop/orders")).where(f"order_date = '{DAY}'")
    found = orders.groupBy("order_date", "region").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "revenue")
    return sorted(tuple(row) for row in found.select("order_date", "region", "revenue").collect())


def check_all_right(opened: OpenProject, spark: Any, project: Path, generation: int = 1) -> None:
    table = project / "warehouse/shop/revenue"
    assert rows(spark, table) == clean(spark, project)
    assert tokens(table) == [(f"twice/proof/revenue/{DAY}", g) for g in range(1, generation + 1)]
    assert loose_files(table) == []
    run = opened.ledger.run("revenue", DAY)
    assert run is not None
    assert (run.generation, run.rows) == (generation, 3)
    assert not opened.ledger.open_attempts()
    assert opened.recover() == ()


def rerun(opened: OpenProject) -> Outcome:
    (result,) = opened.run("revenue", opened.slices("revenue", DAY), "run", timedelta(seconds=30))
    return result.outcome


@pytest.mark.parametrize("point", Point)
def test_a_crash_in_process_then_a_rerun_gives_the_clean_table(
    opened: OpenProject, spark: Any, project: Path, point: Point
) -> None:
    with pytest.raises(Crash), armed(crash_at(point)):
        opened.run("revenue", opened.slices("revenue", DAY), "run", None)
    assert rerun(opened) is (Outcome.ALREADY if point in LANDED else Outcome.PUBLISHED)
    check_all_right(opened, spark, project)


def test_every_failpoint_is_met_on_delta(opened: OpenProject) -> None:
    met: list[Point] = []
    with armed(met.append):
        opened.run("revenue", opened.slices("revenue", DAY), "run", None)
    assert met == list(Point)


def spawn(project: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "twice", *args, "--project", str(project)]
    return subprocess.Popen(command, text=True, start_new_session=True, env={**os.environ, **env})


@pytest.mark.kill
@pytest.mark.parametrize("point", KILLED_AT)
def test_a_process_really_killed_then_a_rerun_gives_the_clean_table(
    opened: OpenProject, spark: Any, project: Path, point: Point
) -> None:
    with spawn(project, "run", "revenue", "--date", DAY, TWICE_FAILPOINT=point.value) as process:
        assert process.wait(100) == -signal.SIGKILL
    assert rerun(opened) is (Outcome.ALREADY if point in LANDED else Outcome.PUBLISHED)
    check_all_right(opened, spark, project)


@pytest.mark.kill
def test_a_process_killed_while_it_stages_leaves_nothing_after_the_rerun(
    opened: OpenProject, spark: Any, project: Path, tmp_path: Path
) -> None:
    with spawn(project, "run", "copied", "--date", DAY, TWICE_TEST_DWELL=str(tmp_path)) as process:
        until((tmp_path / "reached").exists, "the job to be in the middle of its write")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    table = project / "warehouse/shop/copied"
    assert rows(spark, table) == []
    (result,) = opened.run("copied", opened.slices("copied", DAY), "run", timedelta(seconds=30))
    assert result.slices[0].rows == 20
    assert len(rows(spark, table)) == 20
    assert tokens(table) == [(f"twice/proof/copied/{DAY}", 1)]
    assert loose_files(table) == []
