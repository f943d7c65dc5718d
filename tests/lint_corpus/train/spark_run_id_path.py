import argparse
import json
import pathlib

from pyspark.sql import SparkSession

ap = argparse.ArgumentParser()
ap.add_argument("--run-id", required=True)
ap.add_argument("--input", required=True)
opts = ap.parse_args()

spark = SparkSession.builder.appName("score").getOrCreate()
scores = spark.read.parquet(opts.input).selectExpr("user_id", "sqrt(clicks) * 0.3 AS score")

# A directory per run: written once, a repeated run id replaces its own directory.
out = f"s3a://lake/scores/run_id={opts.run_id}/"
scores.write.mode("overwrite").parquet(out)
pathlib.Path("current_run.json").write_text(json.dumps({"path": out}))
