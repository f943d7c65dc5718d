from argparse import ArgumentParser

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, sum as sum_


def run(run_date: str) -> None:
    spark = SparkSession.builder.appName("revenue").getOrCreate()
    orders = spark.table("core.orders").filter(col("order_date") == run_date)
    revenue = orders.groupBy("order_date", "shop_id").agg(sum_("amount").alias("revenue"))
    revenue.write.format("parquet").mode("overwrite").partitionBy("order_date").save("/lake/revenue")


if __name__ == "__main__":
    p = ArgumentParser()
    p.add_argument("--run-date", required=True)
    run(p.parse_args().run_date)
