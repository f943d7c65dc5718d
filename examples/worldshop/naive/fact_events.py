"""One row for each click, as people write it first: write the day, then check it.

    python -m naive.fact_events --date 2026-06-09

**The incident: the alarm after the fact.** A tracker sent clicks without a kind. The check found them, the job failed,
someone was woken up; by then the dashboards had read the day, and the nightly export had sent it to a partner. Running
the job again put the same rows there and raised the same alarm.

Why: the check came after the rows were visible. A check can keep bad rows out only before they are published.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def fact_events(spark: SparkSession, warehouse: Path, day: str) -> None:
    events = spark.read.format("delta").load(str(warehouse / "shop" / "events")).where(F.col("event_date") == day)
    target = str(warehouse / "naive" / "fact_events")
    writer = events.dropDuplicates(["event_id"]).write.format("delta").mode("overwrite").partitionBy("event_date")
    writer.option("replaceWhere", f"event_date = '{day}'").save(target)

    written = spark.read.format("delta").load(target).where(F.col("event_date") == day)
    without_kind = written.where(F.col("kind").isNull()).count()
    if without_kind:
        raise ValueError(f"{without_kind} events of {day} have no kind")


if __name__ == "__main__":
    command.main(fact_events)
