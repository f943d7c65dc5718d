from datetime import datetime

from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook

METRICS = {
    "new_users": "SELECT count(*) FROM users WHERE created_at::date = '{day}'",
    "orders": "SELECT count(*) FROM orders WHERE created_at::date = '{day}'",
}


def compute(metric, ds, **_):
    hook = PostgresHook("dwh")
    value = hook.get_first(METRICS[metric].format(day=ds))[0]
    hook.run(
        "INSERT INTO kpi (day, metric, value) VALUES (%s, %s, %s)",
        parameters=(ds, metric, value),
    )


with DAG("kpi", start_date=datetime(2024, 1, 1), schedule="@daily", catchup=True, default_args={"retries": 2}) as dag:
    for name in METRICS:
        PythonOperator(task_id=name, python_callable=compute, op_kwargs={"metric": name})
