"""Rebuild the product dimension from the whole catalogue, every night, from scratch."""
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("dim_product").enableHiveSupport().getOrCreate()

products = spark.table("raw.products")
categories = spark.table("raw.categories")

dim = (
    products.join(categories, "category_id", "left")
    .select("product_id", "name", "category_name", F.coalesce("price", F.lit(0)).alias("price"), "country")
)

dim.write.mode("overwrite").partitionBy("country").saveAsTable("mart.dim_product")
spark.stop()
