"""Whole processes: what reaches the terminal, what is left behind, and sessions that are not twice's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twice.engine.session.session import base
from twice.errors import EnvironmentProblem

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


EMBEDDED = """
import sys
from pathlib import Path
from pyspark import SparkContext
from twice.engine.session.session import embedded
from twice.engine.session.spark_conf import SessionSettings
settings = SessionSettings(Path("a folder"), Path("ware house"), short_jobs=True, archive="use",
                           conf={"spark.hadoop.fs.s3a.secret.key": "hush"})
spark = embedded(settings)
spark.range(3).write.format("delta").save("table")
jvm = SparkContext._gateway.proc.pid
assert "hush" not in Path(f"/proc/{jvm}/cmdline").read_text() if sys.platform == "linux" else True
spark.sparkContext._jvm.java.lang.System.err.println("from the JVM")
print(jvm)
"""


def test_a_session_says_nothing_on_the_terminal_and_leaves_no_jvm(tmp_path: Path) -> None:
    done = python(EMBEDDED, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not alive(int(done.stdout))
    assert "from the JVM" in (tmp_path / "a folder" / "spark.log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a folder", "table", "ware house"]


KILLED = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from twice.engine.session.session import embedded
from twice.engine.session.spark_conf import SessionSettings
embedded(SessionSettings(Path("t"), Path("w"), short_jobs=True, archive="use"))
sys.stdout.write(str(SparkContext._gateway.proc.pid))
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.kill
def test_the_jvm_of_a_killed_process_ends_by_itself(tmp_path: Path) -> None:
    done = python(KILLED, tmp_path)
    jvm = int(done.stdout)
    deadline = time.monotonic() + 60
    while alive(jvm) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive(jvm)


AGAIN = """
import os, signal, threading
from pathlib import Path
from pyspark.sql import SparkSession
from twice.engine.session.session import close, embedded
from twice.engine.session.spark_conf import SessionSettings
from twice.errors import Interrupted
settings = SessionSettings(Path("t"), Path("w"), short_jobs=True, archive="use")
signal.signal(signal.SIGINT, signal.default_int_handler)
made = SparkSession.__init__
def interrupted(*arguments, **options):
    SparkSession.__init__ = made
    os.kill(os.getpid(), signal.SIGINT)
    made(*arguments, **options)
SparkSession.__init__ = interrupted
try:
    embedded(settings)
except Interrupted as interrupt:
    print(interrupt)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
spark = embedded(settings)
print(spark.range(3).count())
close(spark)
"""


@pytest.mark.long
def test_after_an_interrupted_start_the_same_process_may_start_spark_again(tmp_path: Path) -> None:
    """As in a notebook."""
    done = python(AGAIN, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "interrupted while Spark was starting. No table was touched. Run it again.",
        "3",
    ]


OWN = """
from pathlib import Path
from pyspark.sql import SparkSession
from twice.engine.session.session import base
from twice.engine.session.spark_conf import SessionSettings
from twice.errors import EnvironmentProblem
own = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    base(SessionSettings(Path("t"), Path("w")))
except EnvironmentProblem as problem:
    print(problem)
assert own.range(1).count() == 1
assert not Path("t").exists()
"""


@pytest.mark.long
def test_a_session_without_delta_is_explained_and_left_alone(tmp_path: Path) -> None:
    done = python(OWN, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "was started without Delta" in done.stdout
    assert "spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.4.0" in done.stdout


def test_a_running_session_with_delta_is_used(spark: object, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    from twice.engine.session.spark_conf import SessionSettings

    assert isinstance(spark, SparkSession)
    found = base(SessionSettings(tmp_path / "t", tmp_path / "w"))
    assert found.sparkContext is spark.sparkContext
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SPARK_REMOTE", "sc://localhost", "this is Spark Connect"),
        ("SPARK_API_MODE", "connect", "this is Spark Connect"),
        ("DATABRICKS_RUNTIME_VERSION", "17.3", "this is Databricks"),
    ],
)
def test_what_is_not_supported_yet_is_explained_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    from twice.engine.session.spark_conf import SessionSettings

    monkeypatch.setenv(name, value)
    with pytest.raises(EnvironmentProblem, match=message):
        base(SessionSettings(tmp_path / "t", tmp_path / "w"))


def test_a_jvm_that_cannot_start_is_reported_with_its_last_word(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from twice.engine.session.session import embedded\n"
        "from twice.engine.session.spark_conf import SessionSettings\n"
        "from twice.errors import EnvironmentProblem\n"
        "try:\n"
        "    embedded(SessionSettings(Path('t'), Path('w'), archive='off',"
        " conf={'spark.driver.extraJavaOptions': '-agentlib:nosuch'}))\n"
        "except EnvironmentProblem as problem:\n"
        "    print(problem)\n"
    )
    done = python(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Java ended before Spark could start" in done.stdout
    assert "spark.log" in done.stdout


def test_the_doctor_finds_a_working_machine_well(spark: object) -> None:
    from twice.engine.session.doctor import checks

    found = checks()
    assert [check for check in found if not check.ok] == []
    assert [check.name for check in found] == [
        "python", "java", "pyspark", "jars", "disk", "archive", "spark", "delta", "zones",
    ]  # fmt: skip


def test_the_doctor_says_what_is_missing_and_does_not_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from twice.engine.session.doctor import checks

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = {check.name: check for check in checks()}
    assert not found["java"].ok
    assert "JAVA_HOME" in found["java"].fix
    assert found["spark"].detail == "not tried"
