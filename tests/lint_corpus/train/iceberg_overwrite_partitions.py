from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("ice").getOrCreate()


def rebuild(day: str) -> None:
    logs = spark.table("lake.raw.logs").where(F.col("day") == day)
    logs.groupBy("day", "level").count().writeTo("lake.mart.log_counts").overwritePartitions()


def backfill(days: list[str]) -> None:
    for day in days:
        rebuild(day)
