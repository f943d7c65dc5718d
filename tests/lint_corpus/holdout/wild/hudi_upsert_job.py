from pyspark.sql import SparkSession
import sys

spark = SparkSession.builder.config("spark.serializer", "org.apache.spark.serializer.KryoSerializer").getOrCreate()
day = sys.argv[1]

hudi_options = {
    "hoodie.table.name": "customers",
    "hoodie.datasource.write.recordkey.field": "customer_id",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.operation": "upsert",
}

changes = spark.read.parquet(f"s3://landing/customers/{day}/")
changes.write.format("hudi").options(**hudi_options).mode("append").save("s3://lake/customers/")
