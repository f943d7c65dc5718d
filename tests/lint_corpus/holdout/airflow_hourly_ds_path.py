from datetime import datetime

from airflow import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.amazon.aws.transfers.sql_to_s3 import SqlToS3Operator

with DAG(
    "tickets_hourly",
    schedule_interval="@hourly",
    start_date=datetime(2024, 1, 1),
    catchup=False,
) as dag:
    export = SqlToS3Operator(
        task_id="export",
        query="SELECT * FROM tickets WHERE updated_at >= '{{ data_interval_start }}' AND updated_at < '{{ data_interval_end }}'",
        s3_bucket="lake",
        s3_key="tickets/ds={{ ds }}/tickets.parquet",
        file_format="parquet",
        replace=True,
        sql_conn_id="helpdesk",
    )
