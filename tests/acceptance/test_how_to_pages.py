"""The pages that say how to do something, done: files written, commands and SQL run, what they print compared.

All in this process, on the session that is there. What a page has done before it begins is prepared here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.test_tutorial import Reader
from tests.first_hour.compare import difference
from tests.first_hour.page import Command, File, Step, steps_in
from tests.tiny_queries import SPARK_TOML

pytestmark = pytest.mark.timeout(400)  # on a machine with other work; on two idle cores a fraction of it

PAGES = Path(__file__).resolve().parents[2] / "docs"
SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WAREHOUSE = "/data/warehouse"
"""On the pages. Here it is a folder of the test."""


@dataclass(frozen=True)
class Query:
    text: str


def steps(page: str) -> list[Step | Query]:
    parts = SQL.split((PAGES / page).read_text(encoding="utf-8"))
    found: list[Step | Query] = []
    for number, part in enumerate(parts):
        found += [Query(part)] if number % 2 else steps_in(part)
    return found


@dataclass
class Project:
    """A reader's folder and warehouse."""

    reader: Reader
    spark: Any

    @property
    def warehouse(self) -> Path:
        return self.reader.folder / "warehouse"

    def write(self, name: str, text: str) -> None:
        path = self.reader.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text), encoding="utf-8")

    def here(self, text: str) -> str:
        return text.replace(WAREHOUSE, str(self.warehouse))

    def call(self, command: str) -> str:
        words = self.here(command).split()
        match words:
            case ["mv", old, new]:
                shutil.move(old, new)
            case ["rm", name]:
                (self.reader.folder / name).unlink()
            case ["sed", "-i", change, name]:
                _, old, new, _ = change.split("/")
                path = self.reader.folder / name
                path.write_text(path.read_text().replace(old, new))
            case _:
                return self.reader.do(self.here(command))
        return ""

    def follow(self, page: str) -> Iterator[tuple[Command | Query, str]]:
        """Each command and query, done, with what it printed."""
        todo = steps(page)
        for step, following in zip(todo, [*todo[1:], None], strict=True):
            match step:
                case File():
                    self.write(step.path, step.text)
                case Query():
                    rows = self.spark.sql(self.here(step.text)).collect()
                    yield step, "\n".join(str(row[0]) for row in rows)
                case Command(not_run=reason) if not reason:
                    printed = self.call(step.text)
                    where = f"{page}: {step.text}\n{printed}"
                    assert difference(step.shown, printed.splitlines()) == "", where
                    asked = isinstance(following, Command) and following.text == "echo $?"
                    assert asked or self.reader.code == 0 or step.text == "echo $?", where
                    yield step, printed

    def rows(self, table: str) -> list[tuple[str, ...]]:
        frame = self.spark.read.format("delta").load(str(self.warehouse / "shop" / table))
        return sorted(tuple(map(str, row)) for row in frame.collect())

    def put(self, table: str, columns: str, *rows: str) -> None:
        """A table as another system would write it: rows in SQL, partitioned by the first column."""
        frame = self.spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS given({columns})").coalesce(1)
        writer = frame.write.format("delta").partitionBy(columns.split(",")[0])
        writer.save(str(self.warehouse / "shop" / table))


@pytest.fixture
def project(tmp_path: Path, spark: Any) -> Project:
    made = Project(Reader(tmp_path), spark)
    made.write("twice.toml", f'project = "shop"\n{SPARK_TOML}')
    return made


def test_the_page_about_migrating_an_append_job_is_true(project: Project) -> None:
    project.put(
        "orders",
        "order_date, region, amount_usd",
        *("(DATE'2026-06-08', 'EU', 10.00BD)", "(DATE'2026-06-08', 'EU', 2.50BD)", "(DATE'2026-06-09', 'US', 1.00BD)"),
    )
    printed = []
    for step, text in project.follow("migrate-an-append-job.md"):
        printed.append(text)
        if step.text == "echo $?":  # the old job fills its table, one day of it twice
            project.call("python jobs/revenue.py --date 2026-06-08")
            project.call("python jobs/revenue.py --date 2026-06-09")
            project.call("python jobs/revenue.py --date 2026-06-09")
    assert len(printed) == 6
    day = project.rows("revenue_daily_v2")
    assert day == [("2026-06-08", "EU", "12.50"), ("2026-06-09", "US", "1.00")]
    assert len(project.rows("revenue_daily")) == 3


TRIPS = """
from twice import Daily, read, replace, task


@task("shop.trips", scope=Daily("day", start="2026-01-01"), inputs={"raw": read("shop.raw_trips", by="day")},
      write=replace())
def trips_raw(raw):
    return raw
"""


def test_the_page_about_renaming_and_deleting_a_task_is_true(project: Project) -> None:
    project.put("raw_trips", "day, trip", "(DATE'2026-06-09', 1)", "(DATE'2026-06-09', 2)")
    project.write("pipelines/trips.py", TRIPS)
    project.call("twice run trips_raw --date 2026-06-09")
    project.write("pipelines/trips.py", TRIPS.replace("trips_raw", "ingest_trips"))
    refused = project.call("twice run ingest_trips --date 2026-06-09")
    assert (project.reader.code, "trips_raw" in refused) == (2, True), refused
    done = [step for step, _ in project.follow("rename-or-delete-a-task.md")]
    assert len(done) == 13
    assert project.rows("journeys") == [("2026-06-09", "1"), ("2026-06-09", "2")]


PEOPLE = """
from pyspark.sql import functions as F
from twice import Daily, insert_new, read, replace, task

ORDERS = {"orders": read("shop.orders", by="order_date")}
DAYS = Daily("order_date", start="2026-01-01")


@task("shop.revenue", scope=DAYS, inputs=ORDERS, write=replace())
def revenue(orders):
    return orders.groupBy("order_date").agg(F.sum("amount").alias("revenue"))


@task("shop.customers", scope=DAYS, inputs=ORDERS, write=insert_new("customer_id"))
def customers(orders):
    return orders.groupBy("customer_id").agg(F.min("order_date").alias("order_date"))
"""


def test_the_page_about_deleting_a_persons_rows_is_true(project: Project) -> None:
    project.put(
        "orders",
        "order_date, customer_id, amount",
        *("(DATE'2026-06-09', 4711, 10)", "(DATE'2026-06-09', 5, 1)", "(DATE'2026-06-10', 6, 2)"),
    )
    project.write("pipelines/people.py", PEOPLE)
    for day in ("2026-06-09", "2026-06-10"):
        project.call(f"twice run --all --date {day}")
    counted = [printed for step, printed in project.follow("delete-a-persons-rows.md") if "count(*)" in step.text]
    assert counted == ["0"]
    assert project.rows("customers") == [("5", "2026-06-09"), ("6", "2026-06-10")]
    assert project.rows("revenue") == [("2026-06-09", "1"), ("2026-06-10", "2")]
    project.spark.sql(f"DELETE FROM delta.`{project.warehouse}/shop/revenue` WHERE order_date = '2026-06-10'")
    untouched = project.call("twice run revenue --date 2026-06-10")
    assert "already published" in untouched and "(DELETE)" in untouched, untouched
