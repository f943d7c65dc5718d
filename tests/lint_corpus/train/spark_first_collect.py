from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

spark = SparkSession.builder.getOrCreate()
visits = spark.table("core.visits")

users = visits.groupBy("user_id").agg(
    F.first("country").alias("country"),
    F.collect_list("page").alias("pages"),
    F.max("ts").alias("last_ts"),
)

w = Window.partitionBy("session_id").orderBy(F.lit(1))
entry = visits.withColumn("n", F.row_number().over(w)).where("n = 1")

emails = spark.table("raw.emails").dropDuplicates(["user_id"])

final = users.join(entry.select("user_id", F.col("page").alias("entry_page")), "user_id").join(emails, "user_id")
final.write.mode("overwrite").saveAsTable("mart.users")
