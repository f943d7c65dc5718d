from pyspark.sql import DataFrame, SparkSession

APP_ID = "payments-silver-v1"


def write_twice_safe(batch: DataFrame, batch_id: int) -> None:
    """Delta skips a (txnAppId, txnVersion) pair that it has already committed."""
    batch.persist()
    for path in ("/lake/silver/payments", "/lake/silver/payments_by_merchant"):
        (
            batch.write.format("delta")
            .option("txnAppId", APP_ID)
            .option("txnVersion", batch_id)
            .mode("append")
            .save(path)
        )
    batch.unpersist()


spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format("delta").load("/lake/bronze/payments")
(
    stream.writeStream.option("checkpointLocation", "/chk/payments")
    .foreachBatch(write_twice_safe)
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
