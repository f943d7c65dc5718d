from delta.tables import DeltaTable
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F


def latest_per_key(df, key, *order):
    w = Window.partitionBy(key).orderBy(*[F.col(c).desc() for c in order])
    return df.withColumn("_rn", F.row_number().over(w)).where("_rn = 1").drop("_rn")


def upsert(spark, day):
    changes = spark.read.format("delta").load("/lake/bronze/accounts").where(F.col("ds") == day)
    source = latest_per_key(changes, "account_id", "updated_at", "offset")
    (
        DeltaTable.forPath(spark, "/lake/silver/accounts")
        .alias("t")
        .merge(source.alias("s"), "t.account_id = s.account_id")
        .whenMatchedUpdateAll(condition="s.updated_at > t.updated_at")
        .whenNotMatchedInsertAll()
        .execute()
    )


if __name__ == "__main__":
    import sys

    upsert(SparkSession.builder.getOrCreate(), sys.argv[1])
