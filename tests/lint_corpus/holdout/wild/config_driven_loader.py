"""Loads what the configuration lists. Every entry says how it is written."""
import json
import sys

from pyspark.sql import SparkSession


def load(spark, entry, day):
    df = spark.read.format(entry["format"]).load(entry["source"].format(day=day))
    writer = df.write.format("delta").mode(entry.get("mode", "overwrite"))
    if entry.get("replace_where"):
        writer = writer.option("replaceWhere", entry["replace_where"].format(day=day))
    writer.saveAsTable(entry["target"])


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    with open(sys.argv[1]) as f:
        for entry in json.load(f):
            load(spark, entry, sys.argv[2])
