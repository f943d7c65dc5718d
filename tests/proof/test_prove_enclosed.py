"""A proof touches nothing of the user's: in a process of its own, what the task's code tries beside its result is
refused, by the system where it can, and named."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.sample import sample
from tests.tiny_queries import SPARK_TOML

from twice.core.results.proof import Proof, TrialResult
from twice.core.results.run import RunRequest
from twice.project import prove as project_prove
from twice.project import run as runs
from twice.proof.process.prover import pickled_job
from twice.proof.process.request import ProveJob, ProveScript
from twice.wiring.open_project import OpenProject, open_project, prover_of

pytestmark = pytest.mark.timeout(900)
DAY = "2026-06-09"

PIPELINES = '''
import os, socket, threading, urllib.request
from pathlib import Path
from pyspark.sql import functions as sf
from twice import Daily, read, replace, task

HOME = Path(__file__).resolve().parents[1]
PORT = int((HOME / "port").read_text())
SALES = {"sales": read("shop.sales", by="day")}

def declared(function):
    scope, target = Daily("day", start="2026-01-01"), f"out.{function.__name__}"
    return task(target, scope=scope, inputs=SALES, write=replace())(function)

def call():
    with socket.create_connection(("127.0.0.1", PORT), timeout=1) as there:
        there.sendall(b"paid")

@declared
def sound(sales):
    return sales.groupBy("day").count()

@declared
def calls_here(sales):
    call()
    return sales

@declared
def calls_in_a_thread(sales):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return sales

@declared
def calls_in_a_worker(sales):
    @sf.udf("bigint")
    def called(number):
        try:
            socket.socket().connect(("127.0.0.1", PORT))
        except OSError:
            pass
        return number
    return sales.withColumn("id", called("id"))

@declared
def calls_from_the_jvm(sales):
    sales.sparkSession._jvm.java.net.Socket("127.0.0.1", PORT).close()
    return sales

@declared
def writes_a_folder(sales):
    sales.write.format("delta").mode("append").save(str(HOME / "warehouse" / "shop" / "sales"))
    return sales

@declared
def saves_a_table(sales):
    sales.write.saveAsTable("copied")
    return sales

@declared
def writes_to_a_table(sales):
    sales.writeTo("copied").using("delta").create()
    return sales

@declared
def inserts(sales):
    sales.createOrReplaceTempView("mine")
    place = HOME / "warehouse" / "shop" / "sales"
    sales.sparkSession.sql(f"WITH x AS (SELECT * FROM mine) INSERT INTO delta.`{place}` SELECT * FROM x")
    return sales

@declared
def drops(sales):
    sales.sparkSession.sql("DROP TABLE IF EXISTS shop.sales")
    return sales

@declared
def saves_lines(sales):
    sales.rdd.map(str).saveAsTextFile(str(HOME / "lines"))
    return sales

@declared
def goes_by_the_jvm(sales):
    sales._jdf.write().format("delta").mode("append").save(str(HOME / "warehouse" / "shop" / "sales"))
    return sales

@declared
def writes_a_file(sales):
    (HOME / "last_run.txt").write_text("done")
    return sales

@declared
def writes_in_a_worker(sales):
    @sf.udf("bigint")
    def noted(number):
        with open(HOME / "rows.txt", "a") as file:
            file.write(str(number))
        return number
    return sales.withColumn("id", noted("id"))

@declared
def hides_it(sales):
    try:
        os.remove(HOME / "twice.toml")
    except OSError:
        pass
    return sales

@task("out.reads_a_server", scope=Daily("day", start="2026-01-01"), inputs={"rates": read("pg:public.rates")},
      write=replace())
def reads_a_server(rates):
    assert rates.count() == 3
    return rates.selectExpr("DATE'2026-06-09' AS day", "code", "rate")

@declared
def keeps_to_itself(sales):
    """What a task may do: temporary files, views, settings, writes that go nowhere."""
    import tempfile
    spark = sales.sparkSession
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "note").write_text("x")
        sales.write.parquet(folder + "/rows")
        spark.read.parquet(folder + "/rows").count()
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT 1 AS one")
    spark.sql("SET spark.sql.shuffle.partitions=3")
    spark.sql("SHOW TABLES").collect()
    spark.sql("DROP VIEW mine")
    sales.write.format("noop").mode("overwrite").save()
    return spark.sql("SELECT * FROM {s}", s=sales)
'''


TOML = f"""
project = "home"
{SPARK_TOML}
[connections.pg]
url = "${{env:TWICE_TEST_RATES}}"
"""

SCRIPT = """
import socket, sys
from contextlib import suppress
from pathlib import Path
import pyarrow, pyarrow.parquet

with suppress(OSError):
    socket.create_connection(("127.0.0.1", int(sys.argv[2])))
with suppress(OSError):
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), sys.argv[3] + "/beside.parquet")
place = Path(sys.argv[1]) / "plain" / "kept"
place.mkdir(parents=True, exist_ok=True)
pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), place / "part-0.parquet")
"""


class Receiver:
    """A service of the user's on loopback. Nobody answers: connections wait in its queue, and are counted."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]

    def reached(self) -> int:
        count = 0
        while True:
            try:
                self._socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        self._socket.close()


class Home:
    """A user's project with a table, a receiver, and tasks that act beside their result."""

    def __init__(self, opened: OpenProject, receiver: Receiver) -> None:
        self.opened, self.receiver = opened, receiver

    def bytes(self) -> dict[str, str]:
        """Every folder, and every file with its content. The ledger is the one thing that a proof writes."""
        root = self.opened.settings.root
        found = (path for path in sorted(root.rglob("*")) if not {".twice", "__pycache__"} & set(path.parts))
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "" for p in found}

    def prove(self, task: str, *scenarios: str) -> Proof:
        before = self.bytes()
        proof = project_prove.prove(self.opened, task, DAY, scenarios or ("twice",))
        assert self.receiver.reached() == 0, "a proof reached a service of the user's"
        assert self.bytes() == before, "a proof wrote something of the user's"
        return proof


@pytest.fixture(scope="module")
def home(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    root = tmp_path_factory.mktemp("home")
    receiver = Receiver()
    (root / "pipelines").mkdir()
    (root / "pipelines" / "tasks.py").write_text(PIPELINES)
    (root / "twice.toml").write_text(TOML)
    (root / "port").write_text(str(receiver.port))
    sales = spark.range(0, 20, 1, 2).selectExpr("id", "DATE'2026-06-09' AS day")
    sales.write.format("delta").partitionBy("day").save(str(root / "warehouse" / "shop" / "sales"))
    with open_project(root) as opened:
        yield Home(opened, receiver)
    receiver.close()


@pytest.mark.long
def test_a_task_that_keeps_to_itself_is_proved_and_nothing_was_left_unblocked(home: Home) -> None:
    for task in ("sound", "keeps_to_itself"):
        proof = home.prove(task)
        assert proof.holds, proof
        assert (proof.beside, proof.not_blocked) == ((), ())


@pytest.mark.long
def test_a_task_that_was_published_before_is_proved_on_a_copy_of_its_table(home: Home) -> None:
    runs.run(home.opened, "sound", runs.slices(home.opened, "sound", DAY), RunRequest())
    proof = home.prove("sound")
    assert proof.holds, proof


def named(home: Home, task: str) -> tuple[str, str, str]:
    """The one thing that a proof says this task does beside its result, which is also why it does not hold."""
    proof = home.prove(task, "twice")
    assert proof.trials[0].result is TrialResult.CHANGED, proof
    (found,) = proof.beside
    assert proof.trials[0].difference is not None
    assert found.what in proof.trials[0].difference.causes[0].why
    return found.kind, found.what, found.where


def line(text: str) -> str:
    number = next(at for at, each in enumerate(PIPELINES.splitlines(), 1) if text in each)
    return f"pipelines/tasks.py:{number}"


CALLS = {
    "calls_here": "socket.create_connection",
    "calls_in_a_thread": "socket.create_connection",
    "calls_in_a_worker": "socket.socket().connect",
}


@pytest.mark.parametrize("task", sample(CALLS, of=["calls_here", "calls_in_a_worker"]))
def test_a_service_on_loopback_is_not_reached_and_the_call_is_named(home: Home, task: str) -> None:
    what = f"127.0.0.1:{home.receiver.port}"
    assert named(home, task) == ("call", what, line(CALLS[task]))


def test_a_call_that_the_jvm_makes_is_not_let_out_and_is_reported_with_its_error(home: Home) -> None:
    kind, what, where = named(home, "calls_from_the_jvm")
    assert (kind, where) == ("call", "")
    assert "Connection refused" in what


TABLES = {
    "writes_a_folder": ("DataFrameWriter.save {home}/warehouse/shop/sales", 'mode("append").save(str'),
    "saves_a_table": ("DataFrameWriter.saveAsTable copied", "saveAsTable"),
    "writes_to_a_table": ("DataFrameWriterV2.create copied", "writeTo"),
    "inserts": (
        "WITH x AS (SELECT * FROM mine) INSERT INTO delta.`{home}/warehouse/shop/sales` SELECT * FROM x",
        "INSERT INTO",
    ),
    "drops": ("DROP TABLE IF EXISTS shop.sales", "DROP TABLE"),
    "saves_lines": ("RDD.saveAsTextFile {home}/lines", "saveAsTextFile"),
}


@pytest.mark.parametrize("task", sample(TABLES, of=("writes_a_folder", "inserts")))
def test_a_write_through_spark_is_refused_and_named_with_its_table_and_line(home: Home, task: str) -> None:
    what, where = TABLES[task]
    expected = what.replace("{home}", str(home.opened.settings.root))[:120]
    assert named(home, task) == ("table", expected, line(where))


FILES = {
    "writes_a_file": ("last_run.txt", "last_run.txt"),
    "writes_in_a_worker": ("rows.txt", "rows.txt"),
    "hides_it": ("twice.toml", "os.remove"),
}


@pytest.mark.parametrize("task", FILES)
def test_a_file_that_python_writes_is_refused_and_named_with_its_line(home: Home, task: str) -> None:
    name, where = FILES[task]
    assert named(home, task) == ("file", str(home.opened.settings.root / name), line(where))


def test_a_write_that_goes_around_python_meets_a_file_system_that_is_read_only(home: Home) -> None:
    kind, what, where = named(home, "goes_by_the_jvm")
    assert (kind, where) == ("file", "")
    assert "Read-only file system" in what


@pytest.mark.long
def test_an_input_on_a_server_is_read_from_a_copy(home: Home, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWICE_TEST_RATES", database)
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE rates AS SELECT 'c' || n AS code, n * 1.5 AS rate FROM generate_series(1, 3) n"
        )
    proof = home.prove("reads_a_server")
    assert proof.holds, proof


@pytest.mark.long
def test_a_job_posts_to_a_stand_in_and_what_it_writes_outside_of_its_copy_is_named(home: Home, tmp_path: Path) -> None:
    """The job and the script share a process: each start of Spark is a quarter of a minute."""
    root, port = home.opened.settings.root, home.receiver.port
    outside = str(tmp_path / "outside")

    def job(spark: Any, warehouse: Path) -> None:
        sales = spark.read.format("delta").load(str(warehouse / "shop" / "sales"))
        sales.write.format("delta").mode("overwrite").save(str(warehouse / "plain" / "kept"))
        urllib.request.urlopen(f"http://127.0.0.1:{port}/effect", data=b"{}").read()
        with contextlib.suppress(OSError):
            sales.write.format("delta").save(outside)

    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    before = home.bytes()
    with contextlib.closing(prover_of(root)) as prover:
        of_job = prover.ask(ProveJob(pickled_job(job), ("plain.kept",), root / "warehouse", ("twice",)))
        asked = ProveScript(script, ("{warehouse}", str(port), str(root)), ("plain.kept",), root / "warehouse")
        of_script = prover.ask(asked)
    assert home.receiver.reached() == 0
    assert home.bytes() == before
    assert [one.what for one in of_job.beside] == [f"DataFrameWriter.save {outside}"]
    assert of_job.trials[0].difference is not None
    names = [cause.name for cause in of_job.trials[0].difference.causes]
    assert names == ["write in the code", "effect in the code"]
    assert [(one.kind, one.what) for one in of_script.beside] == [
        ("call", f"127.0.0.1:{port}"),
        ("file", str(root / "beside.parquet")),
    ]
    assert [trial.result for trial in of_script.trials[1:]] != [TrialResult.CHANGED], "it replaces its one file"


@pytest.mark.long
def test_without_namespaces_python_is_refused_all_the_same_and_the_proof_says_what_was_not_blocked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWICE_PROOF_WITHOUT", "network,files,sockets,processes")
    with open_project(home.opened.settings.root) as opened:
        loose = Home(opened, home.receiver)
        proof = loose.prove("sound")
        assert proof.holds, proof
        assert [line.split()[0] for line in proof.not_blocked] == ["connections", "files", "unix-domain", "signals"]
        for task in CALLS:
            assert named(loose, task)[0] == "call"
        for task in ("writes_a_folder", "inserts", "saves_lines"):
            assert named(loose, task)[0] == "table"
        for task in FILES:
            assert named(loose, task)[0] == "file"
