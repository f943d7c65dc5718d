import json
import logging

from pyspark.sql import SparkSession, functions as f

log = logging.getLogger(__name__)
spark = SparkSession.builder.appName("tweets").config("spark.mongodb.write.connection.uri", "mongodb://m/t.c").getOrCreate()

stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "k:9092").option("subscribe", "tweets").load()


def store(df, epoch):
    parsed = df.select(f.get_json_object(f.col("value").cast("string"), "$.id").alias("_id"), f.col("value").cast("string").alias("body"))
    # documents are replaced by _id
    parsed.write.mode("append").format("mongodb").option("operationType", "replace").option("idFieldList", "_id").save()


stream.writeStream.option("checkpointLocation", "/chk/tweets").foreachBatch(store).start().awaitTermination()
