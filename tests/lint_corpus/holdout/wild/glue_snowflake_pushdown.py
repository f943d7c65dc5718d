import sys
from awsglue.context import GlueContext
from awsglue.job import Job
from awsglue.utils import getResolvedOptions
from pyspark.context import SparkContext
from pyspark.sql.functions import col, current_timestamp, max as max_

SNOWFLAKE = "net.snowflake.spark.snowflake"
args = getResolvedOptions(sys.argv, ["JOB_NAME", "URL", "DB", "USERNAME", "PASSWORD", "DAY"])
glue = GlueContext(SparkContext())
spark = glue.spark_session
job = Job(glue)
job.init(args["JOB_NAME"], args)

options = {"sfURL": args["URL"], "sfUser": args["USERNAME"], "sfPassword": args["PASSWORD"], "sfDatabase": args["DB"], "sfSchema": "PUBLIC"}

orders = spark.read.parquet("s3://lake/orders/day=" + args["DAY"])
orders.write.format(SNOWFLAKE).options(**options).option("dbtable", "ORDERS").mode("append").save()

totals = orders.groupBy("region").agg(max_("amount").alias("largest")).withColumn("loaded_at", current_timestamp())
totals.write.format(SNOWFLAKE).options(**options).option("dbtable", "TOTALS").mode("overwrite").save()
job.commit()
