from datetime import datetime

from airflow import DAG
from airflow.providers.amazon.aws.transfers.s3_to_redshift import S3ToRedshiftOperator

with DAG("lake_to_redshift", start_date=datetime(2024, 1, 1), schedule="@daily", catchup=False) as dag:
    clicks = S3ToRedshiftOperator(
        task_id="clicks",
        schema="raw",
        table="clicks",
        s3_bucket="lake",
        s3_key="clicks/{{ ds }}/",
        copy_options=["FORMAT AS PARQUET"],
        method="APPEND",
    )
    users = S3ToRedshiftOperator(
        task_id="users",
        schema="raw",
        table="users",
        s3_bucket="lake",
        s3_key="users/{{ ds }}/",
        method="UPSERT",
        upsert_keys=["user_id"],
    )
