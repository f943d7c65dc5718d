"""`python -m twice.engine.train_archive`: make the class archive by a training run."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from twice.core.audit import measures_of, not_null
from twice.core.scope import Daily
from twice.engine.session.archive import Archive
from twice.engine.session.jars import cache_folder, ready
from twice.engine.session.java import find_java
from twice.engine.session.session import close, embedded
from twice.engine.session.spark_conf import SessionSettings, archive_for
from twice.engine.spark import SparkEngine
from twice.errors import TwiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def train(cache: Path) -> Archive:
    """Make the archive by what every first run does: create a table, replace a slice, read it back."""
    archive = archive_for(find_java(), ready(cache), cache)
    if archive.made:
        return archive
    with tempfile.TemporaryDirectory(prefix="twice-training-") as folder:
        spark = embedded(SessionSettings(Path(folder), Path(folder) / "warehouse", short_jobs=True, cache=cache))
        try:
            _exercise(spark, str(Path(folder) / "table"))
        finally:
            close(spark)
    return archive


def _exercise(spark: SparkSession, table: str) -> None:
    engine, scope = SparkEngine(spark), Daily("day", start="2026-01-01")
    session, slice_ = engine.fresh(), scope.slice_of("2026-01-01")
    rows = session.range(100).selectExpr("id", "id % 7 AS k", "date_add(DATE '2026-01-01', cast(id % 2 AS int)) AS day")
    rows.write.format("delta").partitionBy("day").save(table)
    orders = engine.cut(session.read.format("delta").load(table), "day", slice_.start, slice_.end, None)
    result, _ = engine.shape(orders.groupBy("day", "k").agg({"id": "sum"}).toDF("day", "id", "k"), scope.held_in)
    engine.leaves(result)
    engine.suspicions(result)
    for version in (1, 2):
        observed = engine.observe(result, [slice_], measures_of([not_null("id")]))
        (
            observed.frame.write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", "day >= DATE '2026-01-01' AND day < DATE '2026-01-02'")
            .option("txnAppId", "training")
            .option("txnVersion", str(version))
            .save(table)
        )
        observed.read()
    engine.duplicates(session.read.format("delta").option("versionAsOf", "1").load(table), ["day", "id"])


def main() -> int:
    try:
        archive = train(cache_folder())
    except TwiceError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    message = archive.path if archive.made else "this JVM made no archive; starts will be slower"
    sys.stdout.write(f"{message}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
