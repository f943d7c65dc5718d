import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def session():
    return (
        SparkSession.builder.appName("sessions-daily")
        .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
        .config("spark.sql.shuffle.partitions", "64")
        .getOrCreate()
    )


def transform(spark, day):
    events = spark.read.parquet("s3a://lake/events/").where(F.col("ds") == day)
    return events.groupBy("ds", "user_id").agg(F.count("*").alias("events"), F.max("ts").alias("last_seen"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--day", required=True)
    args = parser.parse_args()
    spark = session()
    out = transform(spark, args.day)
    out.write.mode("overwrite").partitionBy("ds").parquet("s3a://lake/sessions_daily/")


if __name__ == "__main__":
    main()
