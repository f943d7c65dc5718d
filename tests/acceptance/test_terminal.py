"""The commands as a person at a terminal of 80 columns sees them: on a real pseudo-terminal, on real Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.processes.command import ROOT
from tests.sample import sample
from tests.terminal import Session, twice, watch
from tests.tiny_queries import SPARK_TOML

pytestmark = pytest.mark.timeout(400)  # the commands of TYPED are one fixture, and two JVMs

LONG = "orders_of_the_shops_in_the_north_of_the_country"
PIPELINES = f"""
from twice import Daily, audit, call, read, replace, task

@task("shop.{LONG}", scope=Daily("day", start="2026-01-01"), write=replace(), audits=[audit.not_null("id")],
      effects=[call(lambda result, key: None, keyed=False, name="tell_the_shops_that_their_orders_are_there")])
def {LONG}(run):
    if run.slice.label == "2026-06-03":
        raise ValueError("a day that the shop never sent us, for reasons that take a whole sentence to write down here")
    return run.spark.sql(f"SELECT id, DATE'{{run.slice.label}}' AS day FROM range(3)")

@task("shop.revenue_daily", scope=Daily("day", start="2026-01-01"), inputs={{"orders": read("shop.{LONG}", by="day")}},
      write=replace())
def revenue_daily(orders):
    return orders.groupBy("day").count()
"""
TYPED = (
    "run revenue_daily --date 2026-06-01",  # fails: there are no orders yet
    "run --all --date 2026-06-01",
    f"run {LONG} --date 2026-06-01",
    f"restate {LONG} --date 2026-06-01",
    f"plan {LONG} --date 2026-06-02",
    f"backfill {LONG} --from 2026-06-02 --to 2026-06-05 --parallel 2",
    f"history {LONG} --date 2026-06-03",
    "recover",
    "ledger check",
    "plan --all --date 2026-06-02",
    "status --refresh",
    "status --missing --failed --stale --limit 6",
    f"status {LONG}",
    f"prove {LONG} --date 2026-06-01 --scenario twice",
    "graph",
    "doctor",
    "lint jobs",
    "lint jobs --statistics",
    "gc",
    "effects list",
    "effects show 1",
    "backfill list",
    f"backfill show {LONG}_2026-06-02_2026-06-05",
    "ledger environments",
    "ledger prune",
    "config show",
)
JOB = """
df = spark.read.table("orders").where("day = current_date() and the_name_of_a_column_that_is_long = 'a value of it'")
df.write.mode("append").partitionBy("the_day_on_which_it_was_ordered", "the_region").saveAsTable("shop.by_region")
"""
PROOF = (
    "process of the proof: starting",
    "Spark: starting",
    "copying the table",
    "compute (",
    "comparing with the clean run",
)
STARTING_SPARK = (
    f"run {LONG} --date 2026-06-01",
    f"backfill {LONG} --from 2026-07-01 --to 2026-07-02",
    f"prove {LONG} --date 2026-06-01",
    "doctor --deep",
)
SPINNER = "[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("terminal") / "shop"
    (root / "pipelines").mkdir(parents=True)
    (root / "twice.toml").write_text(f'project = "shop"\n{SPARK_TOML}')
    (root / "pipelines" / "shop.py").write_text(PIPELINES)
    (root / "jobs").mkdir()
    (root / "jobs" / "append.py").write_text(JOB)
    return root


@dataclass(frozen=True)
class HeldJava:
    """A Java that does nothing until it may `go`, and then fails."""

    home: Path

    @property
    def go(self) -> Path:
        return self.home / "go"


@pytest.fixture
def held_java(tmp_path: Path) -> HeldJava:
    java = HeldJava(tmp_path / "java")
    (java.home / "bin").mkdir(parents=True)
    (java.home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    program = java.home / "bin" / "java"
    wait = f"for i in $(seq 600); do [ -e {java.go} ] && exit 1; sleep 0.1; done; exit 1"
    program.write_text(f"#!/bin/sh\n{wait}\n")
    program.chmod(0o755)
    return java


@pytest.fixture(scope="module")
def session(project: Path) -> Iterator[Session]:
    """One person, one terminal, one JVM: the commands of TYPED in turn."""
    words = [word for command in TYPED for word in ("--", *command.split())]
    typed = [sys.executable, "-m", "tests.processes.commands_in_turn", *words]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    yield watch(typed, project, env={"PYTHONPATH": path}, lines=400, patience=350)


def shown(session: Session, command: str) -> str:
    """What a command left on the screen."""
    return session.last.split(f"$ {TYPED.index(command)}\n")[1].split("\n$ ")[0]


def unfolded(text: str) -> str:
    return " ".join(text.replace(" \\\n", "\n").split())


def live(session: Session, command: str) -> list[str]:
    """The lines that were drawn while it ran."""
    number = f"{TYPED.index(command)}\n"
    of_command = [frame for _, frame in session.frames if frame.rsplit("$ ", 1)[-1].startswith(number)]
    return [line for frame in of_command for line in frame.splitlines() if re.match(SPINNER, line)]


@pytest.mark.spark
def test_no_line_of_any_command_goes_over_the_edge_of_80_columns(session: Session) -> None:
    assert session.wrapped == []
    assert [line for line in session.last.splitlines() if re.match(SPINNER, line)] == [], "nothing is left behind"


@pytest.mark.spark
def test_a_person_sees_spark_start_and_then_the_steps_of_each_task_with_its_rows(session: Session) -> None:
    assert any("Spark: starting" in line for line in live(session, TYPED[0]))
    lines = "\n".join(live(session, TYPED[1]))
    assert re.search(r"task 1 of 2, orders_.*…?.*: (compute|stage|audit|publish) \(\d of 7\)", lines)
    assert re.search(r"task 2 of 2, revenue_daily\[2026-06-01\]: ", lines)
    assert "3 rows" in lines


@pytest.mark.spark
def test_the_last_line_says_what_is_true_and_what_to_do(session: Session) -> None:
    ends = {command: unfolded(shown(session, command)) for command in TYPED}
    assert ends[TYPED[0]].startswith("✗ error[input-missing]: revenue_daily[2026-06-01]: ")
    assert re.search(r"✓ 2 of 2 tasks are done \(.* s in all\); next: twice status exit 0$", ends[TYPED[1]])
    already = (
        rf"= {LONG}\[2026-06-01\] is up to date: already published \(.*\); next: twice history {LONG} --date 2026-06-01"
    )
    assert re.search(f"{already} exit 0$", ends[TYPED[2]])
    assert "= " in ends[TYPED[3]] and "is up to date: restated: IDENTICAL" in ends[TYPED[3]]
    forecast = (
        rf"○ 1 of 1 slice would be computed; nothing was written \(.*\); next: twice run {LONG} --date 2026-06-02"
    )
    assert re.search(f"{forecast} exit 0$", ends[TYPED[4]])
    assert re.search(r"✗ 3 of 4 slices are done, 1 failed; next: twice backfill resume .* exit 1$", ends[TYPED[5]])
    assert re.search(rf"the newest is failed; next: twice retry {LONG} --date 2026-06-03 exit 0$", ends[TYPED[6]])
    assert ends[TYPED[7]].endswith("✓ 0 attempts settled, 0 still running exit 0")
    assert ends[TYPED[8]].endswith("✓ the ledger agrees with the tables exit 0")
    planned = r"○ 1 of 2 slices would be computed; nothing was written \(.*\); next: twice run --all --date 2026-06-02"
    assert re.search(f"{planned} exit 0$", ends[TYPED[9]])
    # nothing of January to May was ever published, and of the days of the backfill nothing below
    wrong = r"✗ 1 slice failed, (1 slice is stale, )?\d+ slices are missing"
    then = f"twice history {LONG} --date 2026-06-03, then twice retry --failed"
    for command in TYPED[10:13]:
        assert re.search(rf"{wrong}; next: {then} exit 1$", ends[command]), ends[command]


@pytest.mark.spark
def test_each_task_and_each_slice_of_a_status_has_its_symbol(session: Session) -> None:
    tasks = shown(session, TYPED[10])
    assert re.search(r"^✗ orders_\S*…\S* +daily +2026-06-05 +4 published", tasks, re.MULTILINE)
    assert re.search(r"^! revenue_daily +daily +2026-06-01 +1 published", tasks, re.MULTILINE)
    assert "looked 2" in unfolded(tasks)
    listed = shown(session, TYPED[11])
    assert f"✗ {LONG}[2026-06-03]: failed, the task's own code raised ValueError" in unfolded(listed)
    assert "! revenue_daily[2026-06-01]: stale, its input shop." in unfolded(listed)
    assert f"○ {LONG}[2026-01-01]: missing, never published" in unfolded(listed)
    assert re.search(r"^✗ 2026-06-03 +- ", shown(session, TYPED[12]), re.MULTILINE)


@pytest.mark.spark
def test_a_backfill_counts_its_workers_and_shows_what_each_does(session: Session) -> None:
    frames = [frame for _, frame in session.frames if "backfill orders_" in frame and " of 4 slices" in frame]
    assert any("2 workers" in frame for frame in frames)
    assert any(len(re.findall(f"^{SPINNER} orders_", frame, re.MULTILINE)) == 2 for frame in frames)


@pytest.mark.spark
def test_every_command_ends_as_it_should(session: Session) -> None:
    codes = {command: int(unfolded(shown(session, command)).rsplit("exit ", 1)[1]) for command in TYPED}
    failing = (TYPED[0], TYPED[5], "lint jobs", "lint jobs --statistics")
    after_it = [command for command in TYPED if command.startswith("status")]  # the last attempt at a slice failed
    assert {command: code for command, code in codes.items() if code} == dict.fromkeys((*failing, *after_it), 1)


@pytest.mark.spark
def test_while_a_proof_is_made_a_person_sees_its_process_start_and_then_what_it_does(session: Session) -> None:
    lines = live(session, next(command for command in TYPED if command.startswith("prove")))
    steps = [next((at for at, line in enumerate(lines) if words in line), None) for words in PROOF]
    assert None not in steps, "\n".join(lines)
    assert steps == sorted(steps, key=lambda at: at or 0), "\n".join(lines)


@pytest.mark.spark
def test_what_a_person_copies_is_shown_whole(session: Session) -> None:
    assert f"{LONG}_2026-06-02_2026-06-05" in shown(session, "backfill list")
    assert "\n  environment ./warehouse  tasks 2  " in shown(session, "ledger environments")


@pytest.mark.spark
def test_ctrl_c_while_spark_starts_leaves_the_terminal_clean(project: Path) -> None:
    def interrupt(frame: str, process: subprocess.Popen[bytes]) -> None:
        if "Spark: starting" in frame and not asked:
            asked.append(True)
            os.killpg(process.pid, signal.SIGINT)

    asked: list[bool] = []
    seen = watch(twice("run", "--all", "--date", "2026-06-01"), project, then=interrupt)
    assert asked and seen.code == 130
    assert seen.last == ("! interrupted while Spark was starting. No table was touched. Run it again.")
    assert seen.wrapped == []


@pytest.mark.parametrize("command", sample(STARTING_SPARK, of=STARTING_SPARK[:2]))
def test_the_first_sign_comes_within_two_seconds_and_spark_is_named_before_java_has_done_anything(
    command: str, project: Path, held_java: HeldJava
) -> None:
    """Java waits until the test has seen on the screen that Spark is starting: was it not shown, nothing would ever
    come. Two seconds are those of a machine that says its version in a third of one; what is busier gets as much
    more."""

    def let_go(frame: str, _: subprocess.Popen[bytes]) -> None:
        if "Spark: starting" in frame:
            held_java.go.touch()

    idle = [watch(twice("--version"), project).took]
    seen = watch(twice(*command.split()), project, env={"JAVA_HOME": str(held_java.home)}, then=let_go)
    idle.append(watch(twice("--version"), project).took)
    assert held_java.go.exists() and seen.code == 4 and "Java ended before Spark could start" in unfolded(seen.last)
    assert seen.frames[0][0] < 2.0 * max(1.0, max(idle) / 0.33)
    assert seen.wrapped == []
