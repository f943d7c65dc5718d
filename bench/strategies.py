"""merge, insert_new and append_once against what people write by hand.

Ours and the hand-written write share the session, its settings and the files of the table they begin with. Ours is
a whole run: fingerprint, ledger, tokens and read back included.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bench.measuring import Row, arguments, interleaved, report
from bench.measuring.project import MeasuredProject, measured_project

from twice.core.results.run import RunRequest
from twice.project import run as runs

PIPELINE = """
from twice import Daily, Whole, append_once, insert_new, merge, read, task

BATCH = {"batch": read("shop.batch")}

@task("shop.merged", scope=Whole(), inputs=BATCH, write=merge("order_id", newest_by="updated_at"))
def merged(batch):
    return batch

@task("shop.inserted", scope=Whole(), inputs=BATCH, write=insert_new("order_id"))
def inserted(batch):
    return batch

@task("shop.appended", scope=Daily("day", start="2026-01-01"), inputs={"events": read("shop.events", by="day")},
      write=append_once())
def appended(events):
    return events
"""
MERGE = """
MERGE INTO delta.`{table}` t USING (
  SELECT * EXCEPT (place) FROM (
    SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY updated_at DESC, xxhash64(*) DESC) place
    FROM delta.`{batch}`
  ) WHERE place = 1
) s ON t.order_id = s.order_id
"""
UPDATE = "WHEN MATCHED THEN UPDATE SET *\n"
INSERT = "WHEN NOT MATCHED THEN INSERT *\n"


@dataclass(frozen=True)
class Bench(MeasuredProject):
    rows: int
    batch: int

    def ours(self, task: str) -> None:
        runs.run(self.opened, task, runs.slices(self.opened, task, None), RunRequest("restate"))

    def by_hand(self, table: str, clauses: str) -> None:
        self.spark.sql(MERGE.format(table=self.table(table), batch=self.table("batch")) + clauses)

    def make_tables(self, *names: str) -> None:
        for name in names:
            rows = self.spark.range(self.rows).selectExpr("id AS order_id", "0L AS updated_at", *columns(0))
            rows.write.format("delta").save(self.table(name))

    def make_batch(self, round_: int, first: int) -> None:
        """So many keys from `first` on, spread over the whole table, each twice: an older row and the one to keep."""
        step = self.rows // self.batch
        keys = f"SELECT id * {step} + {first} AS id, n FROM range({self.batch}), (VALUES (0), (1)) v(n)"
        stamped = f"CAST({round_} * 2 + n AS BIGINT) AS updated_at"
        rows = self.spark.sql(keys).selectExpr("id AS order_id", stamped, *columns(round_))
        rows.write.format("delta").mode("overwrite").save(self.table("batch"))

    def make_events(self, month: int, days: int, rows: int) -> None:
        day = f"date_add(DATE'2026-{month:02d}-01', CAST(id DIV {rows} AS INT)) AS day"
        events = self.spark.range(days * rows).selectExpr("id AS event_id", *columns(1), day).repartition("day")
        events.write.format("delta").mode("append").partitionBy("day").save(self.table("events"))

    def added_by_the_last_commit(self, name: str) -> int:
        newest = max((Path(self.table(name)) / "_delta_log").glob("*.json"))
        return sum("add" in json.loads(line) for line in newest.read_text().splitlines())


def columns(round_: int) -> list[str]:
    """Another amount in each round."""
    return [
        "xxhash64(id) % 1000000 AS customer_id",
        "element_at(array('EU','US','APAC','LATAM'), CAST(pmod(xxhash64(id, 1), 4) + 1 AS INT)) AS region",
        f"CAST(pmod(xxhash64(id, {round_ + 2}), 100000) / 100 AS DECIMAL(12,2)) AS amount",
        "concat('note ', sha2(CAST(id AS STRING), 256)) AS note",
    ]


def merges(bench: Bench, rounds: int) -> list[Row]:
    bench.make_tables("merged", "merged_hand")
    step = bench.rows // bench.batch
    changed = interleaved(
        lambda _: bench.ours("merged"),
        lambda _: bench.by_hand("merged_hand", UPDATE + INSERT),
        rounds,
        lambda index: bench.make_batch(index + 1, index % step),
    )
    same = interleaved(lambda _: bench.ours("merged"), lambda _: bench.by_hand("merged_hand", UPDATE + INSERT), rounds)
    assert bench.added_by_the_last_commit("merged") == 0, "the same batch again wrote data files"
    size = f"{bench.batch:,} changed rows into {bench.rows:,}"
    return [
        Row(f"merge of {size}, vs MERGE", *changed, 1.2),
        Row("the same batch again (0 data files), vs MERGE", *same, 0.2),
    ]


def insertions(bench: Bench, rounds: int) -> Row:
    """Half of the batch is new each time."""
    bench.make_tables("inserted", "inserted_hand")
    half = bench.rows // 2
    took = interleaved(
        lambda _: bench.ours("inserted"),
        lambda _: bench.by_hand("inserted_hand", INSERT),
        rounds,
        lambda index: bench.make_batch(1, half + index),
    )
    return Row("insert_new, half of the batch new, vs MERGE … INSERT", *took, 1.2)


def appends(bench: Bench, rounds: int, month: int, rows: int) -> Row:
    bench.make_events(month, rounds + 1, rows)
    days = [f"2026-{month:02d}-{index + 1:02d}" for index in range(rounds + 1)]

    def ours(index: int) -> None:
        runs.run(bench.opened, "appended", runs.slices(bench.opened, "appended", days[index]), RunRequest())

    def by_hand(index: int) -> None:
        events = bench.spark.read.format("delta").load(bench.table("events")).where(f"day = DATE'{days[index]}'")
        events.write.format("delta").mode("append").save(bench.table("appended_hand"))

    return Row(f"append_once of {rows:,} rows, vs append", *interleaved(ours, by_hand, rounds), 1.2)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the tables that are merged into")
    parser.add_argument("--batch", type=int, default=100_000, help="keys of the batch")
    options = parser.parse_args()
    with measured_project(PIPELINE) as project:
        bench = Bench(project.root, project.opened, options.rows, options.batch)
        rows = [
            *merges(bench, options.rounds),
            insertions(bench, options.rounds),
            # A small day and a large one: a run costs half a second whatever it appends.
            appends(bench, options.rounds, 1, options.rows // 10),
            appends(bench, options.rounds, 2, options.rows // 2),
        ]
    report(rows, options.json)


if __name__ == "__main__":
    main()
