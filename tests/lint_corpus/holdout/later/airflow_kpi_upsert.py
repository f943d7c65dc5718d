from datetime import datetime

from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook

UPSERT = """
    INSERT INTO kpi (day, metric, value)
    VALUES (%(day)s, %(metric)s, %(value)s)
    ON CONFLICT ON CONSTRAINT kpi_pkey DO UPDATE SET value = EXCLUDED.value
"""


def compute(metric, query, ds, **_):
    hook = PostgresHook("dwh")
    value = hook.get_first(query, parameters=(ds,))[0]
    hook.run(UPSERT, parameters={"day": ds, "metric": metric, "value": value})


with DAG("kpi_upsert", start_date=datetime(2024, 1, 1), schedule="@daily", catchup=True, default_args={"retries": 2}) as dag:
    PythonOperator(task_id="users", python_callable=compute, op_args=["users", "SELECT count(*) FROM users WHERE created_on = %s"])
