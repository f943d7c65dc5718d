"""Pull yesterday's orders out of the shop database and put them into the warehouse."""
import logging
from datetime import datetime, timedelta

import psycopg2
from airflow import DAG
from airflow.operators.python import PythonOperator

log = logging.getLogger(__name__)

default_args = {
    "owner": "warehouse",
    "depends_on_past": False,
    "retries": 3,
    "retry_delay": timedelta(minutes=5),
}

SRC = "host=shopdb dbname=shop user=etl"
DWH = "host=dwh dbname=dwh user=etl"


def fetch_orders():
    conn = psycopg2.connect(SRC)
    cur = conn.cursor()
    yesterday = datetime.now() - timedelta(days=1)
    cur.execute(
        "SELECT order_id, customer_id, amount, ordered_at FROM orders WHERE ordered_at::date = %s",
        (yesterday.date(),),
    )
    rows = cur.fetchall()
    conn.close()
    log.info("got %s orders", len(rows))
    return rows


def load_orders(**context):
    rows = context["ti"].xcom_pull(task_ids="fetch_orders")
    conn = psycopg2.connect(DWH)
    cur = conn.cursor()
    for r in rows:
        cur.execute(
            f"INSERT INTO fact_orders (order_id, customer_id, amount, ordered_at) "
            f"VALUES ({r[0]}, {r[1]}, {r[2]}, '{r[3]}')"
        )
    conn.commit()
    cur.close()
    conn.close()


with DAG(
    "orders_daily",
    default_args=default_args,
    start_date=datetime(2023, 1, 1),
    schedule_interval="@daily",
    catchup=True,
) as dag:
    t1 = PythonOperator(task_id="fetch_orders", python_callable=fetch_orders)
    t2 = PythonOperator(task_id="load_orders", python_callable=load_orders)
    t1 >> t2
