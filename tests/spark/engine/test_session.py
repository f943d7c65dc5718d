"""The embedded session: what it is set to, and that nothing of one run reaches another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf


def test_a_run_works_in_utc_and_ansi_whatever_the_base_session_says(spark: SparkSession) -> None:
    from twice.engine.session.session import run_session

    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        session = run_session(spark)
        assert session.sql("SELECT current_timezone() AS zone").collect()[0].zone == "UTC"
        assert session.conf.get("spark.sql.ansi.enabled") == "true"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_what_one_run_sets_does_not_reach_another(spark: SparkSession) -> None:
    from twice.engine.session.session import run_session

    one, other = run_session(spark), run_session(spark)
    one.conf.set("spark.sql.shuffle.partitions", "77")
    one.range(1).createOrReplaceTempView("mine")
    assert other.conf.get("spark.sql.shuffle.partitions") != "77"
    assert not other.catalog.tableExists("mine")


def test_the_embedded_session_writes_and_reads_delta(session: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "a table")
    rows = session.range(10).withColumn("day", sf.expr("DATE '2026-01-01'"))
    rows.write.format("delta").partitionBy("day").save(table)
    assert session.read.format("delta").load(table).count() == 10


def test_python_functions_run_on_the_python_of_this_process(session: SparkSession) -> None:
    import sys

    seen = session.range(1).select(sf.udf(lambda _: __import__("sys").executable)("id").alias("python")).collect()[0]
    assert seen.python == sys.executable


def test_a_class_of_a_package_we_name_is_one_question_to_the_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm: Any = spark._jvm
    asked: list[str] = []
    ask = jvm._gateway_client.send_command

    def counted(command: str) -> Any:
        asked.append(command)
        return ask(command)

    with monkeypatch.context() as patched:
        patched.setattr(jvm._gateway_client, "send_command", counted)
        name = jvm.org.apache.hadoop.fs.Path._fqn
    assert name == "org.apache.hadoop.fs.Path"
    assert len(asked) == 1
