import sys
from pyspark import SparkConf
from pyspark.sql import SparkSession, functions as F


def build():
    conf = SparkConf().setAppName("x")
    conf.set("spark.sql.sources.partitionOverwriteMode", "DYNAMIC")
    conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    return SparkSession.builder.config(conf=conf).enableHiveSupport().getOrCreate()


if __name__ == "__main__":
    spark = build()
    day = sys.argv[1]
    df = spark.table("raw.events").filter(F.col("dt") == day)
    df.select("user", "event", "dt").write.insertInto("core.events", overwrite=True)
