"""PostgreSQL against what people do by hand: Spark's JDBC, in two ways, and dlt; and reading against Spark's JDBC.

All sides share the session, the source rows (a Parquet file), the server and the shape of the table. dlt runs in an
environment of its own, work only: neither its start nor Spark's session counts.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from bench.measuring import Row, arguments, report
from tests.postgres_server import PASSWORD, PostgresServer

from twice.config import load
from twice.core.results.run import RunRequest
from twice.project import run as runs
from twice.wiring.open_project import OpenProject

DAY = "2026-06-09"
TASKS = 2
JDBC = "org.postgresql:postgresql:42.7.7"
TOML = f"""
project = "bench"
[connections.postgres]
url = "${{env:BENCH_URL}}"
task_connections = {TASKS}
[spark]
master = "local[{TASKS}]"
conf = {{ DRIVER }}
"""
PIPELINE = """
from twice import Daily, audit, read, replace, task

AUDITS = [audit.not_null("order_id", "amount"), audit.unique("order_id")]

@task("postgres:shop.ours", scope=Daily("order_date", start="2026-01-01"), inputs={}, write=replace(), audits=AUDITS)
def ours(run):
    return run.spark.read.parquet(str(run.root / "orders.parquet"))
"""
COLUMNS = "order_id bigint, customer_id bigint, region text, amount numeric(12,2), note text, order_date date"
DLT = """
import sys, time, json
import dlt, pyarrow.parquet as pq
url, file = sys.argv[1:3]
started = time.perf_counter()
pipeline = dlt.pipeline("bench", destination=dlt.destinations.postgres(url), dataset_name="dlt_bench")
rows = dlt.resource(pq.read_table(file), name="orders", primary_key="order_id", write_disposition="merge")
pipeline.run(rows, loader_file_format="parquet")
print(json.dumps(time.perf_counter() - started))
"""


@dataclass(frozen=True)
class Bench:
    root: Path
    opened: OpenProject
    server: PostgresServer
    url: str
    steps: dict[str, float] = field(default_factory=dict)

    @property
    def spark(self) -> Any:
        return self.opened.spark

    @property
    def jdbc(self) -> dict[str, str]:
        database = self.url.rpartition("/")[2]
        address = f"jdbc:postgresql://127.0.0.1:{self.server.port}/{database}"
        return {"url": address, "user": "postgres", "password": PASSWORD, "driver": "org.postgresql.Driver"}

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def make_orders(self, rows: int) -> None:
        frame = self.spark.range(rows).selectExpr(
            "id AS order_id",
            "pmod(xxhash64(id), 1000000) AS customer_id",
            "element_at(array('EU','US','APAC','LATAM'), CAST(pmod(xxhash64(id, 1), 4) + 1 AS INT)) AS region",
            "CAST(pmod(xxhash64(id, 2), 100000) / 100 AS DECIMAL(12,2)) AS amount",
            "concat('note ', sha2(CAST(id AS STRING), 256)) AS note",
            f"DATE'{DAY}' AS order_date",
        )
        frame.repartition(TASKS).write.parquet(str(self.root / "orders.parquet"))
        self.execute(
            "CREATE SCHEMA shop",
            *(
                f"CREATE TABLE shop.{name} ({COLUMNS}, PRIMARY KEY (order_id))"
                for name in ("ours", "staged", "straight")
            ),
        )

    def orders(self) -> Any:
        return self.spark.read.parquet(str(self.root / "orders.parquet"))

    def empty(self, name: str) -> None:
        """Each side writes into an empty table: deleting the round before is nobody's work."""
        self.execute(f"TRUNCATE shop.{name}")

    def ours(self) -> None:
        (result,) = runs.run(self.opened, "ours", runs.slices(self.opened, "ours", DAY), RunRequest("restate"))
        self.steps.update(result.seconds)

    def jdbc_staged(self) -> None:
        """Rewritten batches into a stage, then the publish transaction that we do too."""
        self.execute("DROP TABLE IF EXISTS shop.aside", f"CREATE UNLOGGED TABLE shop.aside ({COLUMNS})")
        writer = self.orders().write.format("jdbc").options(**self.jdbc).option("dbtable", "shop.aside")
        url = self.jdbc["url"] + "?reWriteBatchedInserts=true"
        writer.option("url", url).option("batchsize", 10_000).mode("append").save()
        with psycopg.connect(self.url) as connection:
            found = connection.execute(
                "SELECT count(*), count(DISTINCT order_id), count(*) FILTER (WHERE amount IS NULL) FROM shop.aside"
            ).fetchone()
            assert found is not None
            assert found[0] == found[1]
            connection.execute(f"DELETE FROM shop.staged WHERE order_date = '{DAY}'")
            connection.execute("INSERT INTO shop.staged SELECT * FROM shop.aside")

    def jdbc_straight(self) -> None:
        writer = self.orders().write.format("jdbc").options(**self.jdbc).option("dbtable", "shop.straight")
        writer.mode("append").save()

    def forget_dlt(self) -> None:
        self.execute("DROP SCHEMA IF EXISTS dlt_bench CASCADE", "DROP SCHEMA IF EXISTS dlt_bench_staging CASCADE")

    def dlt(self, python: str) -> float:
        """One merge into an empty table, in a process of its own; only the pipeline's run is counted."""
        file = next((self.root / "whole.parquet").glob("*.parquet"))
        done = subprocess.run([python, "-c", DLT, self.url, str(file)], capture_output=True, text=True, cwd=self.root)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return float(json.loads(done.stdout.strip().splitlines()[-1]))

    def read_ours(self) -> None:
        from twice.core.task import TableName

        with self.opened.context.session() as session:
            table = TableName("shop.source", "postgres")
            target = self.opened.context.target_of(table, session)
            target.read(table).write.format("noop").mode("overwrite").save()

    def read_jdbc(self, rows: int) -> None:
        reader = self.spark.read.format("jdbc").options(**self.jdbc).option("dbtable", "shop.source")
        bounds = {"partitionColumn": "order_id", "lowerBound": 0, "upperBound": rows, "numPartitions": TASKS}
        reader.options(**bounds, fetchsize=10_000).load().write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class Side:
    """One way to do the work. `ready` is not counted; what measures itself returns its seconds."""

    act: Callable[[], float | None]
    ready: Callable[[], object] = lambda: None


def medians(sides: Mapping[str, Side], rounds: int) -> dict[str, float]:
    """Of each side, all interleaved, after one unmeasured round."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    for index in range(rounds + 1):
        for name, side in sides.items():
            side.ready()
            started = time.perf_counter()
            result = side.act()
            if index:
                took[name].append(time.perf_counter() - started if result is None else result)
    return {name: statistics.median(each) for name, each in took.items()}


def dlt_python(given: str | None, folder: Path) -> str | None:
    """A Python of its own for dlt, made by uv unless one is given; None where that fails."""
    if given:
        return given
    tools = Path(__file__).resolve().parents[1] / ".tools" / "bin"
    uv = shutil.which("uv", path=os.pathsep.join([str(tools), os.environ.get("PATH", "")]))
    python = folder / "dlt" / "bin" / "python"
    wanted = ["dlt[postgres]", "adbc-driver-postgresql", "adbc-driver-manager", "pyarrow"]
    steps: list[list[str | Path]] = [
        ["venv", "--python", sys.executable, folder / "dlt"],
        ["pip", "install", "--python", python, *wanted],
    ]
    if uv is None or any(subprocess.run([uv, "--quiet", *step]).returncode for step in steps):
        return None
    return str(python)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--jar", type=Path, help="PostgreSQL's JDBC driver; without it, fetched once by Spark")
    parser.add_argument("--dlt", help="a Python with dlt[postgres] and adbc-driver-postgresql; without it, made by uv")
    options = parser.parse_args()
    server = PostgresServer.start({"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"})
    try:
        with tempfile.TemporaryDirectory(prefix="twice-bench-") as folder:
            measure(Path(folder), server, options)
    finally:
        server.remove()


def measure(root: Path, server: PostgresServer, options: Any) -> None:
    url = os.environ["BENCH_URL"] = server.fresh_database()
    (root / "pipelines").mkdir()
    driver = f'"spark.jars" = "{options.jar}"' if options.jar else f'"spark.jars.packages" = "{JDBC}"'
    (root / "twice.toml").write_text(TOML.replace("DRIVER", driver))
    (root / "pipelines" / "jobs.py").write_text(PIPELINE)
    bench = Bench(root, OpenProject(load(root, None)), server, url)
    bench.make_orders(options.rows)
    bench.orders().coalesce(1).write.parquet(str(root / "whole.parquet"))
    rows = [*loads(bench, dlt_python(options.dlt, root), options), *reads(bench, options)]
    bench.opened.close()
    report(rows, options.json)


def loads(bench: Bench, python: str | None, options: Any) -> list[Row]:
    sides = {
        "ours": Side(bench.ours, partial(bench.empty, "ours")),
        "staged": Side(bench.jdbc_staged, partial(bench.empty, "staged")),
        "straight": Side(bench.jdbc_straight, partial(bench.empty, "straight")),
    }
    if python is not None:
        sides["dlt"] = Side(partial(bench.dlt, python), bench.forget_dlt)
    took, what = medians(sides, options.rounds), f"load {options.rows / 1e6:g} M rows"
    print("ours, the last time, by step:", ", ".join(f"{step} {s:.1f} s" for step, s in bench.steps.items()))
    rows = [
        Row(f"{what}, vs JDBC batches + the same publish", took["ours"], took["staged"], 1 / 1.4),
        Row(f"{what}, vs JDBC straight into the table", took["ours"], took["straight"], 0.5),
    ]
    if python is not None:
        rows.append(Row(f"{what}, vs dlt merging by ADBC", took["ours"], took["dlt"], 1.2))
    return rows


def reads(bench: Bench, options: Any) -> list[Row]:
    bench.execute("CREATE TABLE shop.source AS TABLE shop.staged", "ANALYZE shop.source")
    sides = {"ours": Side(bench.read_ours), "jdbc": Side(partial(bench.read_jdbc, options.rows))}
    took = medians(sides, options.rounds)
    what = f"read {options.rows / 1e6:g} M rows in {TASKS} parts, vs JDBC"
    return [Row(what, took["ours"], took["jdbc"], 1 / 1.5)]


if __name__ == "__main__":
    main()
