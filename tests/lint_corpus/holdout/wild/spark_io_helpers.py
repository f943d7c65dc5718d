import logging
from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("io")


def read_table(spark: SparkSession, db, name):
    return spark.table("{0}.{1}".format(db, name))


def overwrite_table(df: DataFrame, db, name):
    logger.info("overwrite %s.%s", db, name)
    df.write.mode("overwrite").format("parquet").saveAsTable("{0}.{1}".format(db, name))


def append_table(df: DataFrame, db, name):
    logger.info("append %s.%s", db, name)
    df.write.mode("append").format("parquet").saveAsTable("{0}.{1}".format(db, name))
