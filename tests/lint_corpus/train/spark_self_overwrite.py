from pyspark.sql import SparkSession
from pyspark.sql import functions as F

PATH = "hdfs:///lake/users"

spark = SparkSession.builder.appName("users-refresh").getOrCreate()
old = spark.read.parquet(PATH)
new = spark.read.json("hdfs:///landing/users/")
merged = old.unionByName(new).withColumn("rank", F.rand())
merged.write.mode("overwrite").parquet(PATH)
