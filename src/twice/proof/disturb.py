"""What is done to inputs and settings so that order and parallelism show."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.engine.frames.fingerprint import row_hashes


def settings(parts: int, adaptive: str) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(parts),
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }


def spread(parts: int) -> Callable[[DataFrame], DataFrame]:
    """Rows over so many partitions, by a hash of each."""

    def spread_(frame: DataFrame) -> DataFrame:
        return frame.coalesce(1) if parts == 1 else frame.repartition(parts, row_hashes(frame)[0])

    return spread_


def ordered(descending: bool) -> Callable[[DataFrame], DataFrame]:
    """One partition, in the order of a hash of each row: another one than rows were ever written in."""

    def ordered_(frame: DataFrame) -> DataFrame:
        hashed = row_hashes(frame)[1]
        return frame.coalesce(1).sortWithinPartitions(hashed.desc() if descending else hashed.asc())

    return ordered_


def hidden(frame: DataFrame) -> DataFrame:
    """Without every third row, by a hash of each: those come late."""
    return frame.where(sf.pmod(row_hashes(frame)[0], sf.lit(3)) != 0)
