import sys

from awsglue.utils import getResolvedOptions
from pyspark.sql import SparkSession

args = getResolvedOptions(sys.argv, ["JOB_NAME", "day", "bucket"])
spark = (
    SparkSession.builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.warehouse", f"s3://{args['bucket']}/wh")
    .getOrCreate()
)

incoming = spark.read.parquet(f"s3://{args['bucket']}/landing/customers/{args['day']}/")
incoming.createOrReplaceTempView("incoming")

spark.sql(
    """
    CREATE OR REPLACE TEMPORARY VIEW latest AS
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY customer_id ORDER BY updated_at DESC, lsn DESC) AS rn FROM incoming
    ) WHERE rn = 1
    """
)
spark.sql(
    """
    MERGE INTO lake.crm.customers t
    USING latest s ON t.customer_id = s.customer_id
    WHEN MATCHED AND s.updated_at > t.updated_at THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
    """
)
