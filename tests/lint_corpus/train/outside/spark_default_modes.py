from pyspark.sql import SparkSession

spark = SparkSession.builder.enableHiveSupport().getOrCreate()

a = spark.read.json("/in/a")
a.write.saveAsTable("db.a", format="orc", mode="append")

b = spark.table("db.a").groupBy("k").count()
b.write.insertInto("db.b")

c = spark.table("db.b")
c.write.parquet("/out/c")
c.write.save("/out/d", format="delta", mode="overwrite")
