import io
from datetime import datetime

import pandas as pd
from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.postgres.hooks.postgres import PostgresHook


def export_day(ds, **_):
    """One object per day, replaced when the day is run again."""
    df = PostgresHook("shop").get_pandas_df(
        "SELECT * FROM orders WHERE order_date = %(ds)s ORDER BY order_id", parameters={"ds": ds}
    )
    buffer = io.BytesIO()
    df.to_parquet(buffer, index=False)
    S3Hook("lake").load_bytes(buffer.getvalue(), key=f"orders/ds={ds}/orders.parquet", bucket_name="lake", replace=True)


with DAG("orders_to_lake", start_date=datetime(2024, 1, 1), schedule="@daily", catchup=True) as dag:
    PythonOperator(task_id="export_day", python_callable=export_day, retries=3)
