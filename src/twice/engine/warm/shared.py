"""What all commands in one JVM share, whoever sets it: it cannot be given to each of them, but it can be noticed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pyspark import SparkContext

_OF_SPARK = "hive.metastore.warehouse.dir"
"""Set in Hadoop's settings by the first query of each catalog."""


def shared_state(context: SparkContext) -> dict[str, str]:
    """By the names that people have for it; empty if the JVM has ended."""
    jvm: Any = context._jvm
    spark: Any = context._jsc.sc()
    with suppress(Exception):
        hadoop = spark.hadoopConfiguration().getPropsWithPrefix("")
        hadoop.remove(_OF_SPARK)
        system = jvm.java.util.Properties()
        system.putAll(jvm.java.lang.System.getProperties())
        system.keySet().retainAll(system.stringPropertyNames())  # the rest are objects that somebody keeps there
        return {
            "Hadoop's settings": jvm.java.util.TreeMap(hadoop).toString(),
            "system properties of Java": jvm.java.util.TreeMap(system).toString(),
            "time zone of Java": jvm.java.util.TimeZone.getDefault().getID(),
            "language of Java": jvm.java.util.Locale.getDefault().toString(),
            "files of SparkContext.addFile": spark.listFiles().toString(),
            "archives of SparkContext.addArchive": spark.listArchives().toString(),
            "jars of SparkContext.addJar": spark.listJars().toString(),
            "folder of checkpoints": spark.getCheckpointDir().toString(),
        }
    return {}


def changed(before: dict[str, str], now: dict[str, str]) -> str:
    """What a command has changed, named for people; empty if nothing. Values may be secrets."""
    return ", ".join(sorted(name for name in now if now[name] != before.get(name)))
