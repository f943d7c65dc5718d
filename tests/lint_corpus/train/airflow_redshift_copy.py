from datetime import datetime

from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.providers.postgres.hooks.postgres import PostgresHook

COPY_SQL = """
    COPY {table}
    FROM '{path}'
    ACCESS_KEY_ID '{key}'
    SECRET_ACCESS_KEY '{secret}'
    FORMAT AS JSON 'auto'
    TIMEFORMAT 'epochmillisecs'
"""


def stage_events(ds, **kwargs):
    creds = AwsBaseHook("aws_credentials", client_type="s3").get_credentials()
    hook = PostgresHook("redshift")
    sql = COPY_SQL.format(
        table="events",
        path=f"s3://lake/events/{ds}/",
        key=creds.access_key,
        secret=creds.secret_key,
    )
    hook.run(sql)


dag = DAG("events_to_redshift", start_date=datetime(2024, 1, 1), schedule_interval="@daily", catchup=False)
stage = PythonOperator(task_id="stage_events", python_callable=stage_events, dag=dag)
