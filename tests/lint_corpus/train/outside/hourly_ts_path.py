from datetime import datetime

from airflow import DAG
from airflow.providers.google.cloud.transfers.postgres_to_gcs import PostgresToGCSOperator

with DAG("orders_hourly", start_date=datetime(2024, 1, 1), schedule="@hourly", catchup=True) as dag:
    PostgresToGCSOperator(
        task_id="export",
        sql="SELECT * FROM orders WHERE updated_at >= '{{ data_interval_start }}' AND updated_at < '{{ data_interval_end }}'",
        bucket="lake",
        filename="orders/{{ ts_nodash }}/orders.json",
    )
