from datetime import datetime

from airflow import DAG
from airflow.operators.bash import BashOperator
from slack_sdk import WebClient


def tell(context):
    WebClient(token="x").chat_postMessage(channel="#etl", text=f"{context['dag'].dag_id} done")


with DAG(
    "dbt_nightly",
    start_date=datetime(2024, 1, 1),
    schedule="0 2 * * *",
    on_success_callback=tell,
    on_failure_callback=tell,
    catchup=False,
) as dag:
    BashOperator(task_id="dbt_run", bash_command="dbt run --vars '{day: {{ ds }}}'", retries=1)
