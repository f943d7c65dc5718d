"""Ctrl-C and SIGTERM while Spark starts, on real processes: no JVM is left, and one sentence says what is true."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes.command import ROOT, command
from tests.tiny_queries import SPARK_TOML

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(600)]

SENTENCE = "interrupted while Spark was starting. No table was touched. Run it again."
PIPELINE = """
from twice import Whole, replace, task

@task("shop.numbers", scope=Whole(), inputs={}, write=replace())
def numbers(run):
    return run.spark.range(3)
"""
ALL = (
    "before the JVM", "the JVM is there", "twice while it comes", "it has answered", "its context is made",
    "its session is made", "it is looked at",
)  # fmt: skip
SAMPLED = {("the JVM is there", "SIGTERM"), ("its session is made", "SIGINT")}
CASES = [
    pytest.param(moment, name, id=f"{moment}-{name}", marks=[] if (moment, name) in SAMPLED else [pytest.mark.long])
    for moment in ALL
    for name in ("SIGINT", "SIGTERM")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "twice.toml").write_text(f'project = "p"\n{SPARK_TOML}')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "numbers.py").write_text(PIPELINE)
    return tmp_path


@pytest.mark.parametrize(("moment", "name"), CASES)
def test_a_signal_while_spark_starts_ends_its_jvm_with_one_sentence(folder: Path, moment: str, name: str) -> None:
    done = subprocess.run(
        command("interrupted_start", moment, name, "run", "numbers", "--project", folder),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert (done.returncode, done.stderr.strip()) == (128 + signal.Signals[name], SENTENCE), done.stderr
    started = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("jvm")]
    assert len(started) == (moment != "before the JVM")
    assert not [jvm for jvm in started if Path(f"/proc/{jvm}").exists()], "the JVM is left"
    assert done.stdout.splitlines() == [f"jvm {jvm}" for jvm in started], "nothing was published"


@pytest.mark.long
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("after", [0.0, 0.3, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0])
def test_a_signal_at_any_time_of_a_run_leaves_no_jvm_and_says_what_is_true(
    folder: Path, after: float, name: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "twice", "run", "numbers"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while not jvms(folder) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(after)
        process.send_signal(signal.Signals[name])
        out, err = process.communicate(timeout=500)
    assert process.returncode == 128 + signal.Signals[name] or "published" in out, err
    assert len(err.splitlines()) <= 1, err
    deadline = time.monotonic() + 60
    while jvms(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert jvms(folder) == []


def jvms(folder: Path) -> list[int]:
    """Those whose working folder this is."""
    return [int(process.name) for process in Path("/proc").iterdir() if is_jvm(process, folder)]


def is_jvm(process: Path, folder: Path) -> bool:
    try:
        return (process / "exe").readlink().name == "java" and (process / "cwd").readlink() == folder
    except OSError:
        return False
