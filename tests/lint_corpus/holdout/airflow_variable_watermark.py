from datetime import datetime, timedelta

from airflow import DAG
from airflow.models import Variable
from airflow.operators.python import PythonOperator
from airflow.providers.mysql.hooks.mysql import MySqlHook
from airflow.providers.postgres.hooks.postgres import PostgresHook


def sync(**_):
    since = Variable.get("invoices_last_run", default_var="1970-01-01 00:00:00")
    src = MySqlHook("erp")
    rows = src.get_records("SELECT id, number, total, updated_at FROM invoice WHERE updated_at > %s", parameters=(since,))
    PostgresHook("dwh").insert_rows("raw.invoice", rows, target_fields=["id", "number", "total", "updated_at"])
    Variable.set("invoices_last_run", datetime.utcnow().isoformat())


dag = DAG(
    "invoice_sync",
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2)},
    start_date=datetime(2024, 1, 1),
    schedule_interval="*/15 * * * *",
    catchup=False,
)
PythonOperator(task_id="sync", python_callable=sync, dag=dag)
