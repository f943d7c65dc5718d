"""Commands that attach to a warm Spark: the same results as with one of their own, whoever else is attached."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample

from twice.engine.warm.keeper_file import read_all
from twice.engine.warm.line import ask

from .conftest import TOML, Shop, write_orders

pytestmark = pytest.mark.timeout(120)

DAY = ("--date", "2026-06-09")
HELPED = """
from pipelines.helper import FACTOR

def times(number):
    return number * FACTOR
"""
UDFS = """
import os, time
from pyspark.sql import functions as F
from twice import Daily, read, replace, task
from pipelines.helped import times

DAILY = Daily("order_date", start="2026-01-01")
ORDERS = {"orders": read("shop.orders", by="order_date")}

@F.udf("bigint")
def timed(number):
    from pipelines.helped import times
    return times(number)

@F.udf("bigint")
def dwelling(number):
    folder = os.environ.get("TWICE_TEST_DWELL")
    if folder:
        open(os.path.join(folder, "reached"), "w").close()
        while not os.path.exists(os.path.join(folder, "go on")):
            time.sleep(0.05)
    return number

@task("shop.helped", scope=DAILY, inputs=ORDERS, write=replace())
def helped(orders):
    return orders.select("order_date", timed("order_id").alias("order_id"))

@task("shop.slow", scope=DAILY, inputs=ORDERS, write=replace())
def slow(orders):
    return orders.select("order_date", dwelling("order_id").alias("order_id"))

@task("shop.views", scope=DAILY, inputs=ORDERS, write=replace())
def views(orders):
    spark = orders.sparkSession
    assert not spark.catalog.tableExists("of_another_command")
    assert spark.conf.get("spark.sql.shuffle.partitions") != "7"
    spark.sql("CREATE TABLE of_another_command (a INT) USING parquet")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    orders.createOrReplaceGlobalTempView("seen")
    return spark.table("global_temp.seen").groupBy("order_date").agg(F.count("*").alias("orders"))
"""


class Warm:
    """A keeper's folder and the project that it was started in."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "kept"
        self.shop = Shop(home / "shop", inside=True)
        self.fill()

    def fill(self) -> None:
        """The project as it is at first, whatever was made of it."""
        for part in self.shop.root.glob("*"):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        shutil.rmtree(self.shop.root / ".twice", ignore_errors=True)
        self.shop.write("twice.toml", f'{TOML}warm = "{self.folder}"\n')
        self.shop.write("pipelines/udfs.py", UDFS)
        self.shop.write("pipelines/helped.py", HELPED)
        self.shop.write("pipelines/helper.py", "FACTOR = 10\n")

    def put_orders(self, spark: Any) -> None:
        rows = [(n, f"2026-06-{day:02}", "EU", "1.00") for n, day in ((1, 9), (2, 9), (3, 10))]
        write_orders(spark, self.shop.warehouse, *rows)

    def state(self) -> Any:
        return self.shop.call("warm", "status", "-o", "json").data["warm"]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    made = Warm(tmp_path_factory.mktemp("warm"))
    started = made.shop.spawn("warm", "--idle", "20")
    assert started.code == 0, started.err
    assert "Spark is warm now" in started.out
    yield made
    assert made.shop.spawn("warm", "stop", "--force").code == 0


@pytest.fixture
def kept(warm: Warm, spark: Any) -> Shop:
    """A project whose commands attach, with two days of orders: in a folder that a former test had its tables in."""
    warm.fill()
    warm.put_orders(spark)
    return warm.shop


def served(warm: Warm) -> int:
    (state,) = warm.state()
    return int(state["served"])


def rows(spark: Any, shop: Shop, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.format("delta").load(str(shop.warehouse / "shop" / table)).collect())


def until(found: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_run_attaches_and_its_code_is_new_each_time(warm: Warm, kept: Shop, spark: Any) -> None:
    before = served(warm)
    first = kept.spawn("run", "helped", *DAY)
    assert first.code == 0, first.err
    assert [number for _, number in rows(spark, kept, "helped")] == [10, 20]
    kept.write("pipelines/helper.py", "FACTOR = 100\n")
    again = kept.spawn("run", "helped", *DAY)
    assert again.code == 0, again.err
    assert [number for _, number in rows(spark, kept, "helped")] == [100, 200], "the worker's old module was used"
    assert served(warm) == before + 2


def test_each_command_has_its_own_catalog_views_and_settings(warm: Warm, kept: Shop, spark: Any) -> None:
    before = served(warm)
    for day in ("2026-06-09", "2026-06-10"):
        answer = kept.spawn("run", "views", "--date", day)
        assert answer.code == 0, answer.err
    assert [count for _, count in rows(spark, kept, "views")] == [2, 1]
    assert served(warm) == before + 2


def test_tables_that_were_deleted_and_made_again_are_seen_as_they_are(warm: Warm, kept: Shop, spark: Any) -> None:
    assert kept.spawn("run", "helped", *DAY).code == 0
    warm.fill()
    write_orders(spark, kept.warehouse, (7, "2026-06-09", "EU", "1.00"))
    answer = kept.spawn("run", "helped", *DAY)
    assert answer.code == 0, answer.err
    assert [number for _, number in rows(spark, kept, "helped")] == [70]


def test_who_does_not_know_the_key_gets_no_answer(warm: Warm) -> None:
    ((_, kept),) = read_all(warm.folder)
    for want in ("status", "session", "stop"):
        assert ask(replace(kept, key="guessed"), want=want, pid=1, command="", warehouse="") is None
    assert len(warm.state()) == 1


def test_another_environment_starts_its_own_and_says_why(warm: Warm, kept: Shop) -> None:
    before = served(warm)
    answer = kept.spawn("run", "helped", *DAY, env={"AWS_PROFILE": "another"})
    assert answer.code == 0, answer.err
    assert served(warm) == before
    status = kept.spawn("warm", "status", env={"AWS_PROFILE": "another"})
    assert "it has another environment variable AWS_PROFILE" in status.out


@pytest.mark.parametrize(
    "number", sample((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), (signal.SIGKILL, signal.SIGINT))
)
def test_the_jobs_of_a_command_that_is_ended_stop_and_others_go_on(
    warm: Warm, kept: Shop, spark: Any, tmp_path: Path, number: signal.Signals
) -> None:
    gone, going = tmp_path / "gone", tmp_path / "going"
    gone.mkdir()
    going.mkdir()
    with (
        kept.running("run", "slow", *DAY, env={"TWICE_TEST_DWELL": str(gone)}) as ended,
        kept.running("run", "slow", "--date", "2026-06-10", env={"TWICE_TEST_DWELL": str(going)}) as other,
    ):
        until(lambda: (gone / "reached").exists() and (going / "reached").exists(), "both are at work")
        os.kill(ended.pid, number)
        code = ended.wait(60)
        until(lambda: len(warm.state()[0]["attached"]) == 1, "the ended command is still attached")
        (going / "go on").touch()
        _, err = other.communicate(timeout=100)
        assert other.returncode == 0, err
    assert code == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert [number for _, number in rows(spark, kept, "slow")] == [3]
    again = kept.spawn("run", "slow", *DAY)
    assert again.code == 0, again.err
    assert [number for _, number in rows(spark, kept, "slow")] == [1, 2, 3]


POINTS = ("in_stage", "before_commit", "after_commit", "after_publish")


@pytest.mark.parametrize("point", sample(POINTS, ("before_commit",)))
def test_a_run_killed_at_any_step_and_run_again_is_written_once(warm: Warm, kept: Shop, spark: Any, point: str) -> None:
    before = served(warm)
    killed = kept.spawn("run", "helped", *DAY, env={"TWICE_FAILPOINT": point})
    assert killed.code == -9
    again = kept.spawn("run", "helped", *DAY)
    assert again.code == 0, again.err
    assert served(warm) == before + 2
    assert [number for _, number in rows(spark, kept, "helped")] == [10, 20]


def test_it_is_not_ended_under_a_command_unless_it_is_said_and_commands_go_on_without_it(
    tmp_path: Path, spark: Any
) -> None:
    warm = Warm(tmp_path)
    warm.put_orders(spark)
    shop = warm.shop
    assert shop.spawn("warm", "status").code == 1
    assert shop.spawn("warm").code == 0
    assert "warm already" in shop.spawn("warm").out
    ((file, keeper),) = read_all(warm.folder)
    with shop.running("run", "slow", *DAY, env={"TWICE_TEST_DWELL": str(tmp_path)}) as running:
        until(lambda: (tmp_path / "reached").exists(), "it is at work")
        refused = shop.spawn("warm", "stop")
        assert refused.code == 3 and f"twice run slow (process {running.pid})" in refused.err
        assert shop.spawn("warm", "stop", "--force").code == 0
        _, err = running.communicate(timeout=100)
        assert running.returncode not in (0, None), err
    until(lambda: not file.exists(), "the keeper's file is still there")
    until(lambda: not _is_alive(keeper.pid), "the keeper is still there")
    again = shop.spawn("run", "slow", *DAY)
    assert again.code == 0, again.err
    assert [number for _, number in rows(spark, shop, "slow")] == [1, 2]
    assert "no Spark was kept warm" in shop.spawn("warm", "stop").out


LONG = """
import subprocess, sys, twice
print(twice.run("views", date="2026-06-09").outcome)
stopped = subprocess.run([sys.executable, "-m", "twice", "warm", "stop", "--force"])
assert stopped.returncode == 0
print(twice.run("views", date="2026-06-10").outcome)
"""


@pytest.mark.long
def test_a_long_process_goes_on_with_its_own_when_the_warm_one_has_ended(tmp_path: Path, spark: Any) -> None:
    warm = Warm(tmp_path)
    warm.put_orders(spark)
    shop = warm.shop
    assert shop.spawn("warm").code == 0
    done = subprocess.run([sys.executable, "-c", LONG], cwd=shop.root, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == done.stdout.splitlines()[-1] == "Outcome.PUBLISHED"
    assert [count for _, count in rows(spark, shop, "views")] == [2, 1]


def test_a_keeper_that_was_killed_takes_its_java_along_and_nobody_waits_for_it(tmp_path: Path, spark: Any) -> None:
    warm = Warm(tmp_path)
    warm.put_orders(spark)
    shop = warm.shop
    assert shop.spawn("warm").code == 0
    ((_, keeper),) = read_all(warm.folder)
    java = int(subprocess.run(["pgrep", "-P", str(keeper.pid)], capture_output=True, text=True).stdout.split()[0])
    os.kill(keeper.pid, signal.SIGKILL)
    until(lambda: not _is_alive(java), "its Java is still there")
    assert shop.spawn("run", "helped", *DAY).code == 0
    assert [number for _, number in rows(spark, shop, "helped")] == [10, 20]
    assert shop.spawn("warm", "status").code == 1


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
