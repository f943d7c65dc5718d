"""What a command leaves in a warm JVM is seen by no other one, and holds nobody up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample

from twice.engine.warm.keeper_file import read_all

from .conftest import TOML, Answer, Shop
from .test_warm import until

pytestmark = pytest.mark.timeout(120)

ATTACHED = """
import os, sys, time
from twice.wiring.open_project import session
spark = session()
sc, jvm = spark.sparkContext, spark._jvm
def threads(name): return jvm.java.lang.Thread.getAllStackTraces().keySet().toString().count(name)
"""


SLOW = """
from twice import Daily, replace, task
@task("shop.slow", scope=Daily("d", start="2026-01-01"), inputs={}, write=replace())
def slow(): ...
"""


class Left:
    """A project with a warm Spark, and Python that attaches to it as a notebook does."""

    def __init__(self, home: Path) -> None:
        self.shop = Shop(home, inside=True)
        self.shop.write("twice.toml", TOML)
        self.warm()

    def warm(self) -> str:
        started = self.shop.spawn("warm")
        assert started.code == 0, started.err
        return started.out

    @property
    def folder(self) -> Path:
        return self.shop.root / ".twice" / "warm"

    @property
    def log(self) -> str:
        return (self.folder / "keeper.log").read_text()

    def start(self, text: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ATTACHED + text]
        return subprocess.Popen(command, cwd=self.shop.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def said(self, text: str) -> Answer:
        with self.start(text) as process:
            out, err = process.communicate(timeout=100)
            return Answer(process.returncode, out, err)

    def state(self) -> Any:
        return self.shop.call("warm", "status", "-o", "json").data["warm"]


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Left]:
    made = Left(tmp_path / "shop")
    yield made
    made.shop.spawn("warm", "stop", "--force")


def test_the_default_session_is_the_commands_own_and_its_streams_end_with_it(left: Left) -> None:
    seen = """
from pyspark.sql import SparkSession
default = SparkSession(sc)
print(default.catalog.tableExists("seen"), threads("stream execution"))
default.range(1).createOrReplaceTempView("seen")
spark.newSession().readStream.format("rate").load().writeStream.format("noop").start()
print(default.catalog.tableExists("seen"), threads("stream execution"))
"""
    first, second = left.said(seen), left.said(seen)
    assert (first.out, second.out) == ("False 0\nTrue 1\n",) * 2, first.err + second.err
    (state,) = left.state()
    assert state["served"] == 2


@pytest.mark.long
def test_sessions_and_what_they_have_cached_are_freed(left: Left) -> None:
    used = """
from pyspark.sql import functions as F
jvm.java.lang.System.gc()
def kept(): return sc._jsc.getPersistentRDDs().size(), threads("Idle Worker Monitor for")
until = time.monotonic() + 30
while kept() != (0, 0) and time.monotonic() < until: time.sleep(0.1)
print(*kept())
spark.range(9).cache().count()
spark.range(2).select(F.udf(lambda n: n, "bigint")("id")).collect()
"""
    answers = [left.said(used) for _ in range(3)]
    assert [each.out for each in answers] == ["0 0\n"] * 3, answers[-1].err


SHARED = {
    "Hadoop's settings": "sc._jsc.hadoopConfiguration().set('fs.another', 'x')",
    "system properties of Java": "jvm.java.lang.System.setProperty('another', 'x')",
    "folder of checkpoints": "sc.setCheckpointDir(os.getcwd() + '/checkpoints')",
    "files of SparkContext.addFile": "sc.addFile('twice.toml')",
}


@pytest.mark.parametrize("what", sample(SHARED, ("Hadoop's settings",)))
def test_after_a_change_to_what_all_share_nobody_attaches_any_more(left: Left, what: str) -> None:
    assert left.said("spark.range(3).count()").code == 0
    changed = left.said(SHARED[what])
    assert changed.code == 0, changed.err
    until(lambda: not left.state(), "it is still there")
    until(lambda: f"ended: a command has changed what all share: {what}\n" in left.log, "it does not say why")


def test_a_call_that_never_ends_of_a_command_that_was_killed_holds_nobody_up(left: Left) -> None:
    locked = """
channel = jvm.java.io.RandomAccessFile("lock", "rw").getChannel()
held = channel.tryLock()
print("holds it", flush=True)
jvm.java.lang.Thread.sleep(10**9)
"""
    waiting = """
channel = jvm.java.io.RandomAccessFile("lock", "rw").getChannel()
print("attached", flush=True)
sys.stdin.readline()
"""
    with left.start(locked) as killed, left.start(waiting) as other:
        assert killed.stdout is not None and other.stdout is not None
        assert killed.stdout.readline() == "holds it\n" and other.stdout.readline() == "attached\n"
        os.kill(killed.pid, signal.SIGKILL)
        until(lambda: "ended: " in left.log, "who waits for its lock would wait for ever")
        os.kill(other.pid, signal.SIGKILL)
    assert left.state() == []


@pytest.mark.long
def test_a_spark_that_a_command_has_stopped_is_kept_no_longer(left: Left) -> None:
    left.said("sc._jsc.stop()")
    until(lambda: "ended: its Spark has been stopped" in left.log, "every command would ask it in vain")


def test_where_it_is_killed_before_a_command_has_attached_the_command_starts_its_own(left: Left) -> None:
    ((_, keeper),) = read_all(left.folder)
    text = f"""
import os, time
import twice.engine.warm.attach as attach
attached = attach.attached
def late(line, *rest):
    os.kill({keeper.pid}, {int(signal.SIGKILL)})
    while line.receive() is not None: pass
    while os.path.exists("/proc/{keeper.pid}"): time.sleep(0.05)
    return attached(line, *rest)
attach.attached = late
from twice.wiring.open_project import session
print(session().range(3).count(), session().sparkContext._gateway.proc is not None)
"""
    answer = subprocess.run(
        [sys.executable, "-c", text], cwd=left.shop.root, capture_output=True, text=True, timeout=100
    )
    assert (answer.stdout, answer.returncode) == ("3 True\n", 0), answer.stderr


@pytest.mark.parametrize("number", sample((signal.SIGTERM, signal.SIGINT), (signal.SIGTERM,)))
def test_a_command_that_attaches_to_a_java_that_hangs_can_be_interrupted(left: Left, number: signal.Signals) -> None:
    ((_, keeper),) = read_all(left.folder)
    java = int(subprocess.run(["pgrep", "-P", str(keeper.pid)], capture_output=True, text=True).stdout.split()[0])
    text = f"""
import os, signal, sys
import twice.engine.warm.attach as attach
attached = attach.attached
def late(*rest):
    os.kill({java}, signal.SIGSTOP)
    print("it hangs", flush=True)
    return attached(*rest)
attach.attached = late
from twice.cli.main import app
sys.argv = ["twice", "run", "slow", "--date", "2026-06-09"]
app()
"""
    left.shop.write("pipelines/slow.py", SLOW)
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, cwd=left.shop.root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "it hangs\n"
            process.send_signal(number)
            assert process.wait(60) == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
        finally:
            process.kill()
            os.kill(java, signal.SIGCONT)


@pytest.mark.long
def test_of_two_that_are_started_at_once_there_is_one(left: Left) -> None:
    assert left.shop.spawn("warm", "stop").code == 0
    until(lambda: not left.state(), "it is still there")
    both = [left.shop.start("warm") for _ in range(2)]
    said = sorted(process.communicate(timeout=100)[0].split(":")[0] for process in both)
    assert said == ["Spark is warm already", "Spark is warm now"]
    assert len(left.state()) == 1
