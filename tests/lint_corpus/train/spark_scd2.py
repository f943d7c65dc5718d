from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from delta.tables import DeltaTable

spark = SparkSession.builder.getOrCreate()

incoming = spark.read.option("header", True).csv("/mnt/landing/customers/")
target = DeltaTable.forName(spark, "dw.dim_customer")

changed = (
    incoming.alias("s")
    .join(target.toDF().where("is_current").alias("t"), "customer_id", "left")
    .where("t.customer_id IS NULL OR s.row_hash <> t.row_hash")
    .select("s.*")
)

new_rows = (
    changed.withColumn("customer_sk", F.monotonically_increasing_id())
    .withColumn("effective_from", F.current_date())
    .withColumn("effective_to", F.lit(None).cast("date"))
    .withColumn("is_current", F.lit(True))
)

target.alias("t").merge(changed.alias("s"), "t.customer_id = s.customer_id AND t.is_current") \
    .whenMatchedUpdate(set={"is_current": "false", "effective_to": "current_date()"}) \
    .execute()

new_rows.write.format("delta").mode("append").saveAsTable("dw.dim_customer")
