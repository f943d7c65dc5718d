from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = (
    SparkSession.builder.appName("latest-prices")
    .config("spark.cassandra.connection.host", "cassandra")
    .getOrCreate()
)

prices = (
    spark.table("core.prices")
    .groupBy("symbol", "trade_date")
    .agg(F.max("high").alias("high"), F.min("low").alias("low"))
)

# Rows are addressed by primary key: writing a row again is the same row.
prices.write.format("org.apache.spark.sql.cassandra").options(table="daily_prices", keyspace="market").mode("append").save()
