"""Every delivery of every click, as people write it first: append what came today.

    python -m naive.events_raw --date 2026-06-09

**The incident: the campaign that was paid twice.** The load finished, the machine died before the scheduler learned of
it, and the scheduler started it again. The clicks of that day were in the table twice, and the advertiser was billed by
the click. No row was wrong: each had been delivered, and rows without a key look alike.

Why: nothing in the table says that this day is already there.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def events_raw(spark: SparkSession, warehouse: Path, day: str) -> None:
    events = spark.read.format("delta").load(str(warehouse / "shop" / "events")).where(F.col("delivered_on") == day)
    events.write.format("delta").mode("append").save(str(warehouse / "naive" / "events_raw"))


if __name__ == "__main__":
    command.main(events_raw)
