from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.utils.task_group import TaskGroup

TABLES = ["orders", "customers", "items"]

default_args = dict(owner="dwh", retries=2, retry_delay=timedelta(minutes=3), email_on_failure=True)

with DAG(
    dag_id="stage_to_core",
    description="moves the day's rows from staging to core",
    default_args=default_args,
    start_date=datetime(2023, 6, 1),
    schedule="15 3 * * *",
    max_active_runs=1,
    catchup=True,
) as dag:
    begin = EmptyOperator(task_id="begin")
    end = EmptyOperator(task_id="end")

    for name in TABLES:
        with TaskGroup(group_id=name) as group:
            wipe = SQLExecuteQueryOperator(
                task_id="wipe",
                conn_id="dwh",
                sql=f"DELETE FROM core.{name} WHERE load_date = '{{{{ ds }}}}'",
            )
            fill = SQLExecuteQueryOperator(
                task_id="fill",
                conn_id="dwh",
                sql=f"INSERT INTO core.{name} SELECT s.*, DATE '{{{{ ds }}}}' AS load_date FROM staging.{name} s",
            )
            wipe >> fill
        begin >> group >> end
