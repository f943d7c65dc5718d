"""Crash at every failpoint on real Delta, then a plain rerun: the clean table, one commit per generation."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.endings import Ending, check_message, end_at
from tests.sample import sample

from twice import Outcome
from twice.config import load
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ledger.record import AttemptState
from twice.core.results.run import RunRequest
from twice.project import run as runs
from twice.project import upkeep
from twice.wiring.open_project import OpenProject

from .conftest import until
from .tables import loose_files, rows, tokens

DAY = "2026-06-09"
KILLED_AT = (Point.AFTER_CLAIM, Point.AFTER_AUDIT, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, Point.AFTER_PUBLISH)
LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)


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
    assert upkeep.recover(opened) == ()


def rerun(opened: OpenProject) -> Outcome:
    (result,) = runs.run(
        opened, "revenue", runs.slices(opened, "revenue", DAY), RunRequest("run", timedelta(seconds=30))
    )
    return result.outcome


@pytest.mark.parametrize("point", sample(Point, of=(Point.IN_STAGE, Point.AFTER_COMMIT)))
def test_a_crash_in_process_then_a_rerun_gives_the_clean_table(
    opened: OpenProject, spark: Any, project: Path, point: Point
) -> None:
    with pytest.raises(Crash), armed(crash_at(point)):
        runs.run(opened, "revenue", runs.slices(opened, "revenue", DAY), RunRequest())
    assert rerun(opened) is (Outcome.ALREADY if point in LANDED else Outcome.PUBLISHED)
    check_all_right(opened, spark, project)


def test_every_failpoint_is_reached_on_delta(opened: OpenProject) -> None:
    reached: list[Point | SendPoint] = []
    with armed(reached.append):
        runs.run(opened, "revenue", runs.slices(opened, "revenue", DAY), RunRequest())
    assert reached == list(Point)


def spawn(project: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "twice", *args, "--project", str(project)]
    return subprocess.Popen(command, text=True, start_new_session=True, env={**os.environ, **env})


@pytest.mark.kill
@pytest.mark.parametrize("point", sample(KILLED_AT, of=(Point.AFTER_COMMIT,)))
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
    assert not list((table / "_delta_log").glob("*.json"))  # no version of it, so nothing for a reader
    (result,) = runs.run(opened, "copied", runs.slices(opened, "copied", DAY), RunRequest("run", timedelta(seconds=30)))
    assert result.slices[0].rows == 20
    assert len(rows(spark, table)) == 20
    assert tokens(table) == [(f"twice/proof/copied/{DAY}", 1)]
    assert loose_files(table) == []


def in_the_foreground() -> None:
    """What a shell does for a command before it starts: the terminal is its own, and Ctrl-C reaches it (a job in the
    background, which these tests may be, ignores it)."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def shown_on_a_terminal(process: subprocess.Popen[bytes], terminal: int) -> str:
    """All that a process prints on its terminal, until it ends."""
    shown = b""
    with suppress(OSError):  # how a terminal shows that nobody is left
        while part := os.read(terminal, 1 << 16):
            shown += part
    process.wait(100)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.kill
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("number", "code"), sample([(signal.SIGINT, 130), (signal.SIGTERM, 143)], of=[(signal.SIGINT, 130)])
)
def test_ctrl_c_or_sigterm_inside_a_spark_job_ends_in_order_and_frees_the_slice(
    opened: OpenProject, spark: Any, project: Path, tmp_path: Path, number: int, code: int
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "twice", "run", "copied", "--date", DAY, "--project", str(project)]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TWICE_TEST_DWELL": str(tmp_path)},
        start_new_session=True,
        preexec_fn=in_the_foreground,
    )
    os.close(theirs)
    try:
        until((tmp_path / "reached").exists, "the job to be in the middle of its write")
        if number == signal.SIGINT:
            os.write(ours, b"\x03")  # to everybody in the foreground, as a terminal does it
        else:
            os.kill(process.pid, number)
        shown = shown_on_a_terminal(process, ours)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        os.close(ours)
    assert process.returncode == code, shown
    last = f"copied[{DAY}]: interrupted. The table is unchanged. Run it again: it will look first."
    # Beneath the progress, folded to the terminal's width; in a CI system without either.
    assert last in " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).split()), shown
    assert "Traceback" not in shown
    assert not opened.ledger.open_attempts()
    (result,) = runs.run(
        opened, "copied", runs.slices(opened, "copied", DAY), RunRequest()
    )  # the slice is free: nobody waits
    assert result.slices[0].rows == 20
    table = project / "warehouse/shop/copied"
    assert tokens(table) == [(f"twice/proof/copied/{DAY}", 1)]
    assert loose_files(table) == []


WITH_EFFECT = """
from twice import Daily, call, merge, read, replace, task

def announce(result, key):
    with open({received!r}, "a") as file:
        file.write(f"{{result.task}} {{result.slice}} {{result.generation}}\\n")
    return key

EFFECTS = [call(announce, keyed=False, name="announce")]
SCOPE, ORDERS = Daily("order_date", start="2026-01-01"), {{"orders": read("shop.orders", by="order_date")}}

@task("shop.announced", scope=SCOPE, inputs=ORDERS, write=replace(), effects=EFFECTS)
def announced(orders):
    return orders

@task("shop.announced_merged", scope=SCOPE, inputs=ORDERS, write=merge("order_id", order="any"), effects=EFFECTS)
def announced_merged(orders):
    return orders
"""
WAYS = {
    "announced": [
        *((Ending.CTRL_C, point) for point in list(Point)[1:]),
        *((Ending.ERROR, point) for point in (Point.BEFORE_COMMIT, *LANDED)),
        *((Ending.SIGTERM, point) for point in (Point.IN_STAGE, Point.BEFORE_COMMIT, *LANDED)),
    ],
    "announced_merged": [
        (end, at) for end in (Ending.ERROR, Ending.CTRL_C, Ending.SIGTERM) for at in (Point.BEFORE_COMMIT, LANDED[0])
    ],
}


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", sample(WAYS, of=("announced_merged",)))
def test_whatever_ends_a_run_on_delta_a_rerun_gives_the_clean_table_and_sends_it_once(
    project: Path, spark: Any, name: str
) -> None:
    received, table = project / "received.txt", project / f"warehouse/shop/{name}"
    received.touch()
    (project / "pipelines" / "announced.py").write_text(WITH_EFFECT.format(received=str(received)))
    opened = OpenProject(load(project, None))
    days = [f"2026-06-{day:02}" for day in range(1, len(WAYS[name]) + 1)]
    for day, (ending, point) in zip(days, WAYS[name], strict=True):
        slices = runs.slices(opened, name, day)
        end = end_at(point, ending, lambda s=slices: runs.run(opened, name, s, RunRequest())[0])  # type: ignore[misc]
        landed = (f"twice/proof/{name}/{day}", 1) in (tokens(table) if table.exists() else [])
        assert landed or point not in LANDED, (ending, point)
        check_message(end, ending, landed)
        if landed:
            assert opened.ledger.attempts(name, day)[0].state is AttemptState.PUBLISHED, (ending, point)
        (result,) = runs.run(opened, name, slices, RunRequest())
        assert result.outcome is (Outcome.ALREADY if landed else Outcome.PUBLISHED), (ending, point)
        assert received.read_text().splitlines().count(f"{name} {day} 1") == 1, (ending, point)
    assert rows(spark, table) == rows(spark, project / "warehouse/shop/orders", f"order_date <= '{days[-1]}'")
    assert tokens(table) == [(f"twice/proof/{name}/{day}", 1) for day in days]
    assert len(received.read_text().splitlines()) == len(days)
    assert loose_files(table) == []
    assert not opened.ledger.open_attempts()
    assert upkeep.recover(opened) == ()
    opened.close()
