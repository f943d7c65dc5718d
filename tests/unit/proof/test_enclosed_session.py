"""The settings of Spark in a proof's process: nothing in them leads to the user's catalogs, clusters or folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.errors import EnvironmentProblem
from twice.proof.enclosure.enclosure import Enclosure
from twice.proof.enclosure.hook import Guard
from twice.proof.enclosure.session import session_settings

THEIRS = {
    "spark.master": "spark://cluster:7077",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.warehouse.dir": "/user/warehouse",
    "spark.hadoop.hive.metastore.uris": "thrift://metastore:9083",
    "spark.eventLog.dir": "/user/events",
    "spark.local.dir": "/user/fast",
}
KEPT = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def test_settings_that_lead_to_something_of_the_users_are_left_out_and_folders_are_scratch(tmp_path: Path) -> None:
    made = session_settings(Enclosure(Guard(str(tmp_path), "/y")), {**THEIRS, **KEPT}, short_jobs=True)
    assert dict(made.conf) == KEPT
    assert made.folder.is_relative_to(tmp_path) and made.warehouse.is_relative_to(tmp_path)
    assert made.archive == "use"


def test_packages_that_would_have_to_be_fetched_are_refused_with_the_ways_out(tmp_path: Path) -> None:
    conf = {"spark.jars.packages": "org:thing:1.0"}
    with pytest.raises(EnvironmentProblem, match="its process has no network. Name the files in spark.jars; or"):
        session_settings(Enclosure(Guard(str(tmp_path), "/y", network=True)), conf, short_jobs=True)
    loose = session_settings(Enclosure(Guard(str(tmp_path), "/y")), conf, short_jobs=True)
    assert loose.conf == conf
