"""Same load, done so that a second run replaces the day."""
from datetime import datetime, timedelta

import psycopg2
from airflow import DAG
from airflow.operators.python import PythonOperator

default_args = {"owner": "warehouse", "retries": 3, "retry_delay": timedelta(minutes=5)}


def load_orders(ds, **_):
    src = psycopg2.connect("host=shopdb dbname=shop")
    dwh = psycopg2.connect("host=dwh dbname=dwh")
    try:
        with src.cursor() as read:
            read.execute("SELECT order_id, amount, ordered_at FROM orders WHERE ordered_at::date = %s", (ds,))
            rows = read.fetchall()
        with dwh, dwh.cursor() as cur:
            cur.execute("DELETE FROM fact_orders WHERE order_date = %s", (ds,))
            cur.executemany(
                "INSERT INTO fact_orders (order_id, amount, ordered_at, order_date) VALUES (%s, %s, %s, %s)",
                [(*row, ds) for row in rows],
            )
    finally:
        src.close()
        dwh.close()


with DAG("orders_daily_txn", default_args=default_args, start_date=datetime(2023, 1, 1), schedule="@daily") as dag:
    PythonOperator(task_id="load_orders", python_callable=load_orders)
