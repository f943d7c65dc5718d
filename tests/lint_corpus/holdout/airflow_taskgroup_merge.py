from datetime import datetime

from airflow import DAG
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.slack.notifications.slack import send_slack_notification

with DAG(
    dag_id="core_merge",
    start_date=datetime(2023, 6, 1),
    schedule="15 3 * * *",
    catchup=True,
    on_success_callback=[send_slack_notification(text="core merged", channel="#dwh")],
    default_args={"retries": 2},
) as dag:
    for name, key in {"orders": "order_id", "customers": "customer_id"}.items():
        SQLExecuteQueryOperator(
            task_id=f"merge_{name}",
            conn_id="dwh",
            sql=f"""
                MERGE INTO core.{name} t
                USING (
                    SELECT * FROM (
                        SELECT s.*, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY changed_at DESC, seq DESC) rn
                        FROM staging.{name} s WHERE load_date = '{{{{ ds }}}}'
                    ) WHERE rn = 1
                ) s
                ON (t.{key} = s.{key})
                WHEN MATCHED THEN UPDATE SET t.payload = s.payload, t.changed_at = s.changed_at
                    WHERE s.changed_at > t.changed_at
                WHEN NOT MATCHED THEN INSERT ({key}, payload, changed_at) VALUES (s.{key}, s.payload, s.changed_at)
            """,
        )
