from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()

(
    spark.readStream.format("cloudFiles")
    .option("cloudFiles.format", "json")
    .option("cloudFiles.schemaLocation", "/chk/schema")
    .load("/landing/clicks")
    .withColumn("ingested_at", F.current_timestamp())
    .writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", "/chk/clicks")
    .trigger(availableNow=True)
    .toTable("bronze.clicks")
)
