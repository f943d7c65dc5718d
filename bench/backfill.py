"""A year of small days: batched and one by one, against what people write by hand; and planning ten thousand slices.

Ours and the hand-written writes share the session, its settings and the shape of the tables. Every measured backfill
is a first one: planned, stored and carried out into a table of its own, which has one other day already.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import count
from statistics import median
from typing import Any

from bench.measuring import Row, arguments, report
from bench.measuring.project import MeasuredProject, measured_project

from twice.core.backfill.plan import BackfillRequest
from twice.core.results.run import RunRequest
from twice.core.scope import Hourly
from twice.project import backfill as backfills
from twice.project import run as runs
from twice.runtime.backfill.worker import Stop

FIRST, DAYS, ORDERS, LOOP = date(2026, 1, 1), 365, 2000, 60
BEFORE = date(2025, 12, 31)
LAST = FIRST + timedelta(days=DAYS - 1)
HOURS = 10_000
PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, Hourly, audit, read, replace, task

def declare(name):
    @task(f"shop.{name}", scope=Daily("order_date", start="2025-01-01", batch=True), name=name,
          inputs={"orders": read("shop.orders", by="order_date")}, write=replace(),
          audits=[audit.not_null("order_id", "amount"), audit.rows(at_least=1)])
    def copied(orders):
        return orders
    return copied

for at in range(20):
    globals()[f"year_{at}"] = declare(f"year_{at}")

@task("shop.hours", scope=Hourly("event_at", start="2025-01-01T00", batch=True),
      inputs={"events": read("shop.events", by="event_at")}, write=replace())
def hours(events):
    return events
"""


@dataclass(frozen=True)
class Bench(MeasuredProject):
    numbers: Iterator[int] = field(default_factory=count)

    def backfill(self, last: date, batch: Any, parallel: int = 1) -> float:
        """The first backfill of a table that has one other day: plan, store, carry out."""
        task = f"year_{next(self.numbers)}"
        runs.run(self.opened, task, runs.slices(self.opened, task, BEFORE.isoformat()), RunRequest())
        began = time.perf_counter()
        self.carry_out(BackfillRequest(task, FIRST.isoformat(), last.isoformat(), batch=batch), parallel)
        return time.perf_counter() - began

    def carry_out(self, request: BackfillRequest, parallel: int = 1) -> None:
        record, _ = backfills.start(self.opened, request, None)
        done = backfills.work(self.opened, record.name, lambda _: None, Stop.never(), parallel)
        assert done.complete, done

    def loop(self, days: int) -> float:
        """One replaceWhere per day, as a careful script does it."""
        table = f"hand_{next(self.numbers)}"
        self._replace(f"order_date = DATE'{BEFORE}'", table)
        began = time.perf_counter()
        for at in range(days):
            self._replace(f"order_date = DATE'{FIRST + timedelta(days=at)}'", table)
        return time.perf_counter() - began

    def whole(self) -> float:
        """One replaceWhere over the whole range: nothing is quicker, and nothing of it can be resumed."""
        table = f"hand_{next(self.numbers)}"
        self._replace(f"order_date = DATE'{BEFORE}'", table)
        began = time.perf_counter()
        # Not BETWEEN, which Delta 4.4 on Spark 4.1 cannot resolve in a replaceWhere.
        self._replace(f"order_date >= DATE'{FIRST}' AND order_date <= DATE'{LAST}'", table)
        return time.perf_counter() - began

    def _replace(self, where: str, table: str) -> None:
        frame = self.spark.read.format("delta").load(self.table("orders")).where(where)
        writer = frame.write.format("delta").mode("overwrite").partitionBy("order_date")
        writer.option("replaceWhere", where).save(self.table(table))

    def make_orders(self) -> None:
        days = self.spark.range((DAYS + 1) * ORDERS).selectExpr(
            "id AS order_id",
            "element_at(array('EU','US','APAC','LATAM'), CAST(pmod(xxhash64(id, 1), 4) + 1 AS INT)) AS region",
            "CAST(pmod(xxhash64(id, 2), 100000) / 100 AS DECIMAL(12,2)) AS amount",
            "concat('note ', sha2(CAST(id AS STRING), 256)) AS note",
            f"date_add(DATE'{BEFORE}', CAST(id % {DAYS + 1} AS INT)) AS order_date",
        )
        days.repartition("order_date").write.format("delta").partitionBy("order_date").save(self.table("orders"))


def year(bench: Bench, rounds: int) -> list[Row]:
    """Interleaved, after one unmeasured round of each. The loops are measured once: they are sixty writes long."""
    took: dict[str, list[float]] = {"batched": [], "whole": []}
    for index in range(rounds + 1):
        measured = {"batched": bench.backfill(LAST, "auto"), "whole": bench.whole()}
        for name, seconds in measured.items():
            took[name] += [seconds] if index else []
    part = FIRST + timedelta(days=LOOP - 1)
    bench.loop(3)
    bench.backfill(FIRST + timedelta(days=2), "off")
    took["loop"] = [bench.loop(LOOP)]
    took["one by one"] = [bench.backfill(part, "off")]
    took["two at once"] = [bench.backfill(part, "off", parallel=2)]
    found = {name: median(times) for name, times in took.items()}
    scaled = found["loop"] * DAYS / LOOP
    return [
        Row("365 days batched, vs a replaceWhere per day (60 days, scaled)", found["batched"], scaled, 1 / 20),
        Row("365 days batched, vs one replaceWhere over the year", found["batched"], found["whole"], 1.15),
        Row("60 days one by one, vs a replaceWhere per day", found["one by one"], found["loop"], 1.0),
        Row("60 days one by one, --parallel 2, vs a replaceWhere per day", found["two at once"], found["loop"], 1.0),
    ]


def planning(bench: Bench, commits: int) -> Row:
    """Ten thousand published hours, whose input has moved by some commits since."""
    events = bench.spark.range(HOURS).selectExpr(
        "id", "timestamp_seconds(unix_seconds(TIMESTAMP'2025-01-01T00:00:00Z') + id * 3600 + 60) AS event_at"
    )
    dated = events.selectExpr("*", "CAST(event_at AS DATE) AS event_date")
    dated.repartition("event_date").write.format("delta").partitionBy("event_date").save(bench.table("events"))
    hours = bench.opened.project.task("hours").scope
    assert isinstance(hours, Hourly)
    last = hours.slice_at(events.tail(1)[0].event_at.astimezone()).label
    bench.carry_out(BackfillRequest("hours", "2025-01-01T00", last, batch=400))
    for at in range(commits):
        row = dated.where(f"id = {at * 7}")
        row.write.format("delta").mode("append").save(bench.table("events"))
    request = BackfillRequest("hours", "2025-01-01T00", last, only=("stale",))
    backfills.plan(bench.opened, request, None)
    began = time.perf_counter()
    plan = backfills.plan(bench.opened, request, None)
    took = time.perf_counter() - began
    assert len(plan.slices) == commits, len(plan.slices)
    return Row(f"plan of {HOURS:,} slices after {commits} commits, vs 2 s", took, 2.0, 1.0)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--commits", type=int, default=100, help="commits of the input before planning")
    options = parser.parse_args()
    with measured_project(PIPELINE) as project:
        bench = Bench(project.root, project.opened)
        bench.make_orders()
        rows = year(bench, options.rounds)
        rows.append(planning(bench, options.commits))
    report(rows, options.json)


if __name__ == "__main__":
    main()
