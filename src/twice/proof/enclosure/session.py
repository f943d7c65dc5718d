"""Spark in an enclosed process: nothing in its settings leads to catalogs, folders or clusters of the user's."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from twice.config import SparkSettings
from twice.engine.session.session import base, embedded, existing
from twice.engine.session.spark_conf import SessionSettings
from twice.errors import EnvironmentProblem
from twice.proof.enclosure.enclosure import Enclosure
from twice.proof.enclosure.spark_writes import guard_writes

_THEIRS = (
    *("spark.master", "spark.sql.catalog", "spark.sql.warehouse.dir", "spark.hadoop.hive", "spark.sql.hive"),
    *("spark.local.dir", "spark.eventLog", "spark.checkpoint"),
)
"""Settings of the user's that lead to catalogs, folders and clusters of the user's."""
_PACKAGES = "spark.jars.packages"
_KEPT = "spark.sql.catalog.spark_catalog"


def project_session(enclosure: Enclosure, spark: SparkSettings) -> SparkSession:
    """For the tasks of a project, with what of its settings leads nowhere else."""
    _guard_writes(enclosure, catalog=False)
    return base(session_settings(enclosure, spark.revealed(), short_jobs=spark.short_jobs, memory=spark.memory))


def plain_session(enclosure: Enclosure) -> SparkSession:
    """For jobs and scripts: what a job writes by name goes to the scratch catalog."""
    found = existing()
    if found is not None:
        return found
    _guard_writes(enclosure, catalog=True)
    return embedded(session_settings(enclosure, {}, short_jobs=True))


def session_settings(
    enclosure: Enclosure, conf: Mapping[str, str], *, short_jobs: bool, memory: str | None = None
) -> SessionSettings:
    """Spark in this process alone, its catalog and all its folders in the scratch folder."""
    if conf.get(_PACKAGES) and enclosure.guard is not None and enclosure.guard.network:
        raise EnvironmentProblem(
            f"{_PACKAGES} cannot be fetched in a proof: its process has no network",
            fix="Name the files in spark.jars; or, to be proved with less kept in: TWICE_PROOF_WITHOUT=network,files",
        )
    ours = {name: value for name, value in conf.items() if not name.startswith(_THEIRS) or name == _KEPT}
    folder = enclosure.scratch
    return SessionSettings(
        folder / "spark", folder / "catalog", short_jobs=short_jobs, memory=memory, archive="use", conf=ours
    )


def _guard_writes(enclosure: Enclosure, *, catalog: bool) -> None:
    assert enclosure.guard is not None
    guard_writes(enclosure.guard, catalog=catalog)
