"""Small PySpark jobs that do not use twice, each broken in one known way, and its sound twin."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from typing import Any

DAY = "2026-06-09"
RECEIVER = "TWICE_TEST_RECEIVER"
"""The environment names the receiver of effects, on this machine."""


def append(spark: Any, warehouse: Path) -> None:
    _totals(spark, warehouse).write.format("delta").mode("append").partitionBy("day").save(_out(warehouse))


def append_sound(spark: Any, warehouse: Path) -> None:
    _replace(spark, warehouse)


def static_overwrite(spark: Any, warehouse: Path) -> None:
    _totals(spark, warehouse).write.format("delta").mode("overwrite").partitionBy("day").save(_out(warehouse))


def static_overwrite_sound(spark: Any, warehouse: Path) -> None:
    _replace(spark, warehouse)


def mark_before_data(spark: Any, warehouse: Path) -> None:
    mark = warehouse / "mark"
    if mark.exists() and mark.read_text() == DAY:
        return
    mark.write_text(DAY)
    _replace(spark, warehouse)


def mark_before_data_sound(spark: Any, warehouse: Path) -> None:
    mark = warehouse / "mark"
    if mark.exists() and mark.read_text() == DAY:
        return
    _replace(spark, warehouse)
    mark.write_text(DAY)


def unguarded_effect(spark: Any, warehouse: Path) -> None:
    _replace(spark, warehouse)
    _announce({})


def unguarded_effect_sound(spark: Any, warehouse: Path) -> None:
    _replace(spark, warehouse)
    _announce({"Idempotency-Key": f"totals-{DAY}"})


def _totals(spark: Any, warehouse: Path) -> Any:
    events = spark.read.format("delta").load(str(warehouse / "shop" / "events"))
    return events.where(f"day = DATE'{DAY}'").groupBy("day", "customer").count()


def _replace(spark: Any, warehouse: Path) -> None:
    writer = _totals(spark, warehouse).write.format("delta").mode("overwrite").partitionBy("day")
    writer.option("replaceWhere", f"day = DATE'{DAY}'").save(_out(warehouse))


def _out(warehouse: Path) -> str:
    return str(warehouse / "out" / "totals")


def _announce(headers: dict[str, str]) -> None:
    request = urllib.request.Request(os.environ[RECEIVER], data=b"done", headers=headers, method="POST")
    urllib.request.urlopen(request, timeout=20).close()
