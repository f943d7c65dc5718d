from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

schema = StructType([StructField("trip_id", StringType()), StructField("fare", DoubleType())])

spark = SparkSession.builder.appName("trips-stream").getOrCreate()

trips = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "broker:9092")
    .option("subscribe", "trips")
    .option("startingOffsets", "earliest")
    .load()
    .select(from_json(col("value").cast("string"), schema).alias("j"))
    .select("j.*")
)


def write_batch(batch_df, batch_id):
    print(f"batch {batch_id}: {batch_df.count()} rows")
    (
        batch_df.write.format("jdbc")
        .option("url", "jdbc:postgresql://dwh/dwh")
        .option("dbtable", "trips")
        .option("user", "etl")
        .mode("append")
        .save()
    )


query = (
    trips.writeStream.foreachBatch(write_batch)
    .option("checkpointLocation", "/chk/trips")
    .start()
)
query.awaitTermination()
