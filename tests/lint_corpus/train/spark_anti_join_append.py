from pyspark.sql import DataFrame, SparkSession


def only_new(incoming: DataFrame, existing: DataFrame, key: str) -> DataFrame:
    return incoming.dropDuplicates().join(existing.select(key), on=key, how="left_anti")


def main() -> None:
    spark = SparkSession.builder.appName("events-append").getOrCreate()
    landed = spark.read.parquet("/lake/landing/events")
    existing = spark.read.format("delta").load("/lake/bronze/events")
    fresh = landed.join(existing.select("event_id"), on="event_id", how="left_anti")
    fresh.write.format("delta").mode("append").save("/lake/bronze/events")


if __name__ == "__main__":
    main()
