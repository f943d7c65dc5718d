"""Upserts into the CRM mart. Slack is only told about failures, by callback."""
from datetime import datetime

import requests
from airflow import DAG
from airflow.hooks.base import BaseHook
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook

UPSERT = """
INSERT INTO crm.contacts (contact_id, email, score, updated_at)
SELECT contact_id, email, score, updated_at
FROM (
    SELECT c.*, row_number() OVER (PARTITION BY contact_id ORDER BY updated_at DESC, load_seq DESC) AS rn
    FROM staging.contacts c
    WHERE c.file_date = %(ds)s
) latest
WHERE rn = 1
ON CONFLICT (contact_id) DO UPDATE
SET email = EXCLUDED.email, score = EXCLUDED.score, updated_at = EXCLUDED.updated_at
WHERE crm.contacts.updated_at < EXCLUDED.updated_at
"""


def tell_slack(context):
    hook_url = BaseHook.get_connection("slack").password
    requests.post(hook_url, json={"text": f"{context['task_instance'].task_id} failed"}, timeout=5)


def upsert(ds, **_):
    PostgresHook("crm").run(UPSERT, parameters={"ds": ds})


with DAG(
    "crm_contacts",
    start_date=datetime(2022, 6, 1),
    schedule="@daily",
    default_args={"retries": 3, "on_failure_callback": tell_slack},
) as dag:
    PythonOperator(task_id="upsert", python_callable=upsert)
