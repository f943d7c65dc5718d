import os
import uuid

from pyspark.sql import SparkSession, functions as F, types as T

spark = SparkSession.builder.appName("claims").getOrCreate()

new_uuid = F.udf(lambda: str(uuid.uuid4()), T.StringType())

claims = (
    spark.read.option("multiline", True).json(os.environ["CLAIMS_PATH"])
    .withColumn("claim_uid", new_uuid())
    .withColumn("batch", F.lit(str(uuid.uuid4())))
)

claims.write.jdbc(
    url=os.environ["JDBC_URL"],
    table="claims",
    mode="append",
    properties={"user": "etl", "password": os.environ["PW"]},
)
