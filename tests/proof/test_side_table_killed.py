"""Processes really killed while they build a table beside a task's own, on Delta: nothing runs after a kill, no
`finally` and no `except`. What they leave is neither taken for rows of the task nor in anybody's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample

from twice.core.failure.failpoints import Point
from twice.core.results.run import RunRequest
from twice.project import rebuild as rebuilding
from twice.project import run as runs
from twice.project import upkeep
from twice.runtime.rebuild.plan import RebuildRequest
from twice.runtime.upkeep.adopt import AdoptRequest
from twice.wiring.open_project import OpenProject

from .tables import loose_files, rows

DAYS = "2026-06-09..2026-06-10"
REQUEST = AdoptRequest("ana", "from the old job", DAYS, lay_out=True)
KILLED = """
import os, signal, sys
from pathlib import Path
from twice.config import load
from twice.core.failure.failpoints import Point, armed
from twice.project import rebuild, upkeep
from twice.runtime.rebuild.plan import RebuildRequest
from twice.runtime.upkeep.adopt import AdoptRequest
from twice.wiring.open_project import OpenProject

root, what, point, left = Path(sys.argv[1]), sys.argv[2], Point(sys.argv[3]), [int(sys.argv[4])]

def kill(passed):
    left[0] -= passed is point
    if not left[0]:
        os.killpg(os.getpgid(0), signal.SIGKILL)

with armed(kill):
    opened = OpenProject(load(root, None))
    if what == "adopt":
        request = AdoptRequest("ana", "from the old job", sys.argv[5], lay_out=True)
        upkeep.adopt(opened, opened.project.task("revenue"), request)
    else:
        rebuild.rebuild(opened, "revenue", RebuildRequest(), lambda _: None)
"""


def killed(project: Path, what: str, point: Point, passes: int) -> None:
    """Killed with its JVM when it comes by for the last of so many times."""
    arguments = [str(project), what, point.value, str(passes), DAYS]
    process = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=380,
        env=dict(os.environ),
    )
    assert process.returncode == -signal.SIGKILL, process.stderr[-2000:]


@pytest.fixture
def table(spark: Any, project: Path) -> Path:
    """Filled by another job, in one piece; the last row is of a day that nobody declares."""
    made = project / "warehouse/shop/revenue"
    days = "SELECT DATE'2026-06-09' AS order_date UNION ALL SELECT DATE'2026-06-10' UNION ALL SELECT DATE'2026-06-08'"
    frame = spark.sql(f"SELECT order_date, 'EU' AS region, CAST(7 AS DECIMAL(22,2)) AS revenue FROM ({days})")
    frame.coalesce(1).write.format("delta").save(str(made))
    return made


def side(table: Path) -> Path:
    return table.with_name("revenue__rebuild")


@pytest.mark.kill
@pytest.mark.timeout(800)
@pytest.mark.parametrize(
    ("point", "passes"), sample([(Point.BEFORE_COMMIT, 2), (Point.AFTER_COMMIT, 2)], of=[(Point.AFTER_COMMIT, 2)])
)
def test_an_adoption_killed_at_its_exchange_leaves_nothing_after_the_next_one(
    opened: OpenProject, spark: Any, project: Path, table: Path, point: Point, passes: int
) -> None:
    before = rows(spark, table)
    killed(project, "adopt", point, passes)
    assert (side(table) / "_delta_log").is_dir()
    upkeep.adopt(opened, opened.project.task("revenue"), REQUEST)
    assert not side(table).exists()
    assert loose_files(table) == []
    assert rows(spark, table) == before
    # A row that a person deletes afterwards does not come back with what a kill had left.
    spark.sql(f"DELETE FROM delta.`{table}` WHERE order_date = '2026-06-08'")
    rebuilding.rebuild(opened, "revenue", RebuildRequest(), lambda _: None)
    assert [row[0].isoformat() for row in rows(spark, table) if row[0].isoformat() == "2026-06-08"] == []


@pytest.mark.kill
@pytest.mark.timeout(800)
def test_the_copy_of_a_killed_adoption_is_not_filled_by_a_rebuild_but_dropped(
    opened: OpenProject, spark: Any, project: Path, table: Path
) -> None:
    killed(project, "adopt", Point.AFTER_COMMIT, 2)
    spark.sql(f"DELETE FROM delta.`{table}` WHERE order_date = '2026-06-08'")
    runs.run(opened, "revenue", runs.slices(opened, "revenue", "2026-06-11"), RunRequest())
    rebuilding.rebuild(opened, "revenue", RebuildRequest(), lambda _: None)
    assert "2026-06-08" not in {row[0].isoformat() for row in rows(spark, table)}
    assert not side(table).exists()
    assert loose_files(table) == []


@pytest.mark.kill
@pytest.mark.timeout(800)
def test_gc_drops_what_a_killed_adoption_has_left(opened: OpenProject, spark: Any, project: Path, table: Path) -> None:
    before = rows(spark, table)
    killed(project, "adopt", Point.BEFORE_COMMIT, 2)
    assert [(each.task, each.kept) for each in upkeep.left_copies(opened)] == [("revenue", "")]
    assert not side(table).exists()
    assert loose_files(table) == []
    assert rows(spark, table) == before


@pytest.mark.kill
@pytest.mark.timeout(800)
def test_a_killed_rebuild_is_named_by_gc_and_gone_on_with_at_once(
    opened: OpenProject, spark: Any, project: Path
) -> None:
    for day in ("2026-06-09", "2026-06-10"):
        runs.run(opened, "revenue", runs.slices(opened, "revenue", day), RunRequest())
    table = project / "warehouse/shop/revenue"
    before = rows(spark, table)
    killed(project, "rebuild", Point.AFTER_FINISH, 1)
    records = project / ".twice/rebuild/revenue.db"
    (left,) = upkeep.left_copies(opened)
    assert left.kept.endswith("of a rebuild are in it: go on with twice rebuild revenue, or drop it with --abandon")
    assert records.exists()
    rebuilding.rebuild(opened, "revenue", RebuildRequest(), lambda _: None)
    assert rows(spark, table) == before
    assert not side(table).exists() and not records.exists()
    assert upkeep.left_copies(opened) == ()


def test_a_folder_that_is_no_table_of_ours_is_never_removed(opened: OpenProject, project: Path, table: Path) -> None:
    side(table).mkdir()
    (side(table) / "notes.csv").write_text("1,2\n")
    assert not rebuilding.abandon(opened, "revenue")
    assert (side(table) / "notes.csv").exists()


def test_a_removal_that_died_is_ended_by_the_next_one(opened: OpenProject, project: Path, table: Path) -> None:
    """Its log was put away already, so nobody can ask it whose it is."""
    (side(table) / "_twice_dropped").mkdir(parents=True)
    (side(table) / "order_date=2026-06-09").mkdir()
    (side(table) / "order_date=2026-06-09" / "twice-a-part-1.parquet").write_text("")
    assert not rebuilding.abandon(opened, "revenue")
    assert not side(table).exists()
