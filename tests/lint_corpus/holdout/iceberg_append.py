import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("ice").getOrCreate()
day = sys.argv[1]

logs = spark.read.json(f"s3a://drop/logs/{day}/")
logs.writeTo("lake.raw.logs").append()

spark.sql(f"DELETE FROM lake.mart.log_counts WHERE day = '{day}'")
spark.sql(
    f"""
    INSERT INTO lake.mart.log_counts
    SELECT day, level, count(*) FROM lake.raw.logs WHERE day = '{day}' GROUP BY day, level
    """
)
