"""SQL jobs are described in code and executed by one small runner."""
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass
class Job:
    name: str
    sql: str


JOBS = [
    Job("visits", "INSERT OVERWRITE TABLE mart.visits PARTITION (ds='{ds}') SELECT shop, count(*) FROM core.visits WHERE ds='{ds}' GROUP BY shop"),
    Job(
        "returns",
        """
        INSERT INTO mart.returns
        SELECT shop, count(*), '{ds}' FROM core.returns WHERE ds = '{ds}' GROUP BY shop
        """,
    ),
]


def run_all(ds: str) -> None:
    spark = SparkSession.builder.enableHiveSupport().getOrCreate()
    for job in JOBS:
        spark.sql(job.sql.format(ds=ds))
