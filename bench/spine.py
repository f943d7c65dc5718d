"""The spine against what people write by hand: one large slice, many small ones, and the first command of the day.

Ours and the hand-written write share the session, its settings and the shape of the table.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from bench.measuring import Row, arguments, interleaved, report
from bench.measuring.project import MeasuredProject, measured_project

from twice.core.results.run import RunRequest
from twice.project import run as runs

DAY = "2026-06-09"
PIPELINE = """
from twice import Daily, audit, read, replace, task

DAILY = Daily("order_date", start="2026-01-01")
INPUTS = {"orders": read("shop.orders", by="order_date")}
CHEAP = [audit.not_null("order_id", "amount"), audit.between("amount", 0, 100000), audit.rows(at_least=1)]
SMALL = {"orders": read("shop.small_orders", by="order_date")}

@task("shop.plain", scope=DAILY, inputs=INPUTS, write=replace(), audits=CHEAP)
def plain(orders):
    return orders

@task("shop.with_unique", scope=DAILY, inputs=INPUTS, write=replace(), audits=[*CHEAP, audit.unique("order_id")])
def with_unique(orders):
    return orders

@task("shop.small", scope=DAILY, inputs=SMALL, write=replace(), audits=CHEAP)
def small(orders):
    return orders
"""
# What our session sets that a script by hand would set too; not the class-data archive, which is ours.
SAME_SETTINGS = (
    "spark.master",
    "spark.driver.memory",
    "spark.driver.extraClassPath",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.shuffle.partitions",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.databricks.delta.snapshotPartitions",
)
HAND_WRITTEN = """
import sys
from pyspark.sql import SparkSession
conf, source, table, day = eval(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
builder = SparkSession.builder
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
frame = spark.read.format("delta").load(source).where(f"order_date = DATE'{day}'")
frame.write.format("delta").mode("overwrite").partitionBy("order_date").option(
    "replaceWhere", f"order_date = DATE'{day}'").save(table)
"""


@dataclass(frozen=True)
class Bench(MeasuredProject):
    rows: int

    def ours(self, task: str, day: str = DAY) -> None:
        runs.run(self.opened, task, runs.slices(self.opened, task, day), RunRequest("restate"))

    def by_hand(self, table: str, day: str = DAY, source: str = "orders") -> None:
        """The slice as people replace it who know that they must."""
        frame = self.spark.read.format("delta").load(self.table(source)).where(f"order_date = DATE'{day}'")
        self._replace(frame, table, day)

    def staged_by_hand(self, table: str) -> None:
        """Write aside, read back and audit, copy into place: write-audit-publish as it is usually done."""
        aside = self.table("aside")
        frame = self.spark.read.format("delta").load(self.table("orders")).where(f"order_date = DATE'{DAY}'")
        frame.write.format("delta").mode("overwrite").save(aside)
        stage = self.spark.read.format("delta").load(aside)
        bad = stage.where("order_id IS NULL OR amount IS NULL OR NOT (amount BETWEEN 0 AND 100000)").count()
        assert bad == 0
        self._replace(stage, table, DAY)

    def _replace(self, frame: Any, table: str, day: str) -> None:
        writer = frame.write.format("delta").mode("overwrite").partitionBy("order_date")
        writer.option("replaceWhere", f"order_date = DATE'{day}'").save(self.table(table))

    def make_orders(self) -> None:
        columns = [
            "id AS order_id",
            "xxhash64(id) % 1000000 AS customer_id",
            "element_at(array('EU','US','APAC','LATAM'), CAST(pmod(xxhash64(id, 1), 4) + 1 AS INT)) AS region",
            "CAST(pmod(xxhash64(id, 2), 100000) / 100 AS DECIMAL(12,2)) AS amount",
            "concat('note ', sha2(CAST(id AS STRING), 256)) AS note",
        ]
        large = self.spark.range(self.rows).selectExpr(*columns, f"DATE'{DAY}' AS order_date")
        large.write.format("delta").partitionBy("order_date").save(self.table("orders"))
        days = self.spark.range(31 * 2000).selectExpr(
            *columns, "date_add(DATE'2026-05-01', CAST(id % 31 AS INT)) AS order_date"
        )
        days.repartition("order_date").write.format("delta").partitionBy("order_date").save(self.table("small_orders"))


def large_slice(bench: Bench, rounds: int) -> list[Row]:
    size = f"{bench.rows // 1_000_000} M rows" if bench.rows >= 1_000_000 else f"{bench.rows:,} rows"
    plain = interleaved(lambda _: bench.ours("plain"), lambda _: bench.by_hand("hand"), rounds)
    unique = interleaved(lambda _: bench.ours("with_unique"), lambda _: bench.by_hand("hand"), rounds)
    staged = interleaved(lambda _: bench.ours("plain"), lambda _: bench.staged_by_hand("hand"), rounds)
    return [
        Row(f"run of {size}, fingerprint and audits, vs replaceWhere", *plain, 1.15, 0.5),
        Row(f"run of {size} with unique, vs replaceWhere", *unique, 1.5),
        Row(f"run of {size}, vs stage, re-read, audit, copy", *staged, 1.0),
    ]


def small_slices(bench: Bench, rounds: int) -> Row:
    days = [f"2026-05-{day:02d}" for day in range(1, 31)]

    def ours(_: int) -> None:
        for day in days:
            bench.ours("small", day)

    def by_hand(_: int) -> None:
        for day in days:
            bench.by_hand("small_hand", day, "small_orders")

    return Row("30 small days one by one, vs 30 replaceWhere", *interleaved(ours, by_hand, rounds), 1.0)


def cold(bench: Bench, rounds: int) -> Row:
    """The whole command, in a process of its own, against a script with the same settings."""
    conf = {name: bench.spark.conf.get(name) for name in SAME_SETTINGS}
    script = bench.root / "by_hand.py"
    script.write_text(HAND_WRITTEN)

    def ours(index: int) -> None:
        day = f"2026-05-{index + 1:02d}"
        _quiet([sys.executable, "-m", "twice", "restate", "small", "--date", day, "--project", str(bench.root)])

    def by_hand(index: int) -> None:
        day = f"2026-05-{index + 1:02d}"
        _quiet([sys.executable, str(script), repr(conf), bench.table("small_orders"), bench.table("cold_hand"), day])

    return Row("cold command, one small day, vs a cold script", *interleaved(ours, by_hand, rounds), 0.8)


def _quiet(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the large slice")
    options = parser.parse_args()
    with measured_project(PIPELINE) as project:
        bench = Bench(project.root, project.opened, options.rows)
        bench.make_orders()
        rows = large_slice(bench, options.rounds)
        rows.append(small_slices(bench, max(2, options.rounds // 2)))
        rows.append(cold(bench, max(2, options.rounds // 2)))
    report(rows, options.json)


if __name__ == "__main__":
    main()
