from datetime import date

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def publish(spark: SparkSession, day: date) -> None:
    bookings = spark.table("silver.bookings").where(F.col("booking_date") == F.lit(day))
    daily = bookings.groupBy("booking_date", "hotel_id").agg(F.sum("nights").alias("nights"))
    (
        daily.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"booking_date = '{day.isoformat()}'")
        .saveAsTable("gold.hotel_daily")
    )


if __name__ == "__main__":
    import sys

    publish(SparkSession.builder.getOrCreate(), date.fromisoformat(sys.argv[1]))
