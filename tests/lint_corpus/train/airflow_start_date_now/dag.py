from datetime import datetime, timedelta

from airflow import DAG
from airflow.providers.postgres.operators.postgres import PostgresOperator
from airflow.utils.dates import days_ago

today = datetime.today().strftime("%Y-%m-%d")

args = {
    "owner": "bi",
    "start_date": days_ago(1),
    "retries": 1,
    "retry_delay": timedelta(minutes=1),
}

dag = DAG("stock_levels", default_args=args, schedule_interval="@daily", template_searchpath=["/opt/sql"])

load = PostgresOperator(
    task_id="load_stock",
    postgres_conn_id="dwh",
    sql="sql/load_stock.sql",
    params={"day": today},
    dag=dag,
)
