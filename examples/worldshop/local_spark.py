"""Spark for the scripts that are not tasks: the generator, the naive jobs, the demo's own look at the tables."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from twice.engine.session.session import embedded
from twice.engine.session.spark_conf import SessionSettings


def start(warehouse: Path, short_jobs: bool = True) -> SparkSession:
    """The session twice itself would start (Delta's jars are in its cache), and nothing else of twice.

    `short_jobs` starts quickly and computes slowly: give False for millions of rows.
    """
    settings = SessionSettings(warehouse.parent / ".twice", warehouse, short_jobs=short_jobs, archive="use")
    return embedded(settings)
