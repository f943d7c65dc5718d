"""What twice needs of a Spark session: classic Spark 4 with Delta, on files of this machine. Others are refused."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from twice.engine.session import jars
from twice.errors import EnvironmentProblem

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def refuse_remote() -> None:
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        raise EnvironmentProblem("this is Databricks, which this version of twice does not support yet")
    remote = "SPARK_REMOTE" in os.environ or os.environ.get("SPARK_API_MODE", "").lower() == "connect"
    if remote or is_remote() or _connected():
        raise EnvironmentProblem(
            "this is Spark Connect, which this version of twice does not support yet",
            fix="Use a classic session: unset SPARK_REMOTE, or let twice start Spark itself.",
        )


def _connected() -> bool:
    module = sys.modules.get("pyspark.sql.connect.session")
    return module is not None and module.SparkSession.getActiveSession() is not None


def check_pieces(session: SparkSession) -> None:
    if int(session.version.split(".")[0]) < 4:
        raise EnvironmentProblem(f"this session runs Spark {session.version}; twice needs Spark 4")
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    catalog = session.conf.get("spark.sql.catalog.spark_catalog", "") or ""
    missing = [] if DELTA_EXTENSION in extensions else [f"spark.sql.extensions={DELTA_EXTENSION}"]
    missing += [] if catalog == DELTA_CATALOG else [f"spark.sql.catalog.spark_catalog={DELTA_CATALOG}"]
    missing += [] if _has_delta(session) else [f"spark.jars.packages={','.join(jars.locked().packages)}"]
    if missing:
        raise EnvironmentProblem(
            "your Spark session was started without Delta, and a running session cannot be given it",
            fix=f"Start it with {' and '.join(missing)}, or let twice start Spark itself.",
        )
    refuse_remote_files(session)


def refuse_remote_files(session: SparkSession) -> None:
    """A path without a scheme is one of the session's default file system: tables would be where nobody named them."""
    jvm: Any = session.sparkContext._jvm
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    scheme = str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(hadoop).getScheme())
    if scheme != "file":
        raise EnvironmentProblem(
            f"this session's default file system is {scheme}:, and twice writes to folders that this machine sees only",
            fix="Set spark.hadoop.fs.defaultFS=file:///.",
        )


def _has_delta(session: SparkSession) -> bool:
    jvm: Any = session.sparkContext._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("org.apache.spark.sql.delta.DeltaLog")
    except Exception:  # noqa: BLE001 - py4j wraps ClassNotFoundException in its own errors
        return False
    return True
