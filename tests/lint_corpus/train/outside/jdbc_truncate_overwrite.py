from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
props = {"user": "etl", "driver": "org.postgresql.Driver"}
stores = spark.table("gold.stores")
stores.write.option("truncate", "true").jdbc("jdbc:postgresql://pg/dw", "stores", mode="overwrite", properties=props)
