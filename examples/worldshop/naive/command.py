"""The command line that the naive jobs share: a date, and where the tables are."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import local_spark


def main(job: Callable[[SparkSession, Path, str], None]) -> None:
    parser = argparse.ArgumentParser(description=f"{job.__name__} as people write it first.")
    parser.add_argument("--date", required=True)
    parser.add_argument("--warehouse", type=Path, default=Path("warehouse"))
    asked = parser.parse_args()
    job(local_spark.start(asked.warehouse), asked.warehouse, asked.date)
