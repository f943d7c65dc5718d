import sys
from datetime import datetime

from awsglue.context import GlueContext
from awsglue.job import Job
from awsglue.utils import getResolvedOptions
from pyspark.context import SparkContext
from pyspark.sql import functions as F

args = getResolvedOptions(sys.argv, ["JOB_NAME", "SOURCE", "TARGET"])
sc = SparkContext()
glue = GlueContext(sc)
spark = glue.spark_session
job = Job(glue)
job.init(args["JOB_NAME"], args)

now = datetime.now()

raw = spark.read.json(args["SOURCE"])
cleaned = (
    raw.filter(F.col("status").isNotNull())
    .withColumn("amount", F.col("amount").cast("decimal(18,2)"))
    .withColumn("year", F.lit(now.year))
    .withColumn("month", F.lit(now.month))
)

print("rows:", cleaned.count())

(
    cleaned.write.mode("append")
    .partitionBy("year", "month")
    .parquet(args["TARGET"])
)

job.commit()
