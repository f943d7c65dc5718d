from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("visits").getOrCreate()
visits = spark.table("core.visits")

pages = visits.groupBy("session_id").agg(
    F.array_sort(F.collect_list(F.struct("ts", "event_id", "page"))).alias("pages"),
    F.min_by("country", F.struct("ts", "event_id")).alias("country"),
)
w = Window.partitionBy("session_id").orderBy(F.col("ts").asc(), F.col("event_id").asc())
entry = visits.withColumn("n", F.row_number().over(w)).where(F.col("n") == 1).drop("n")
sample = visits.sample(fraction=0.05, seed=20240101)

pages.join(entry.select("session_id", "landing_page"), "session_id").write.mode("overwrite").saveAsTable("mart.sessions")
sample.write.mode("overwrite").parquet("/lake/qa/visits_sample")
