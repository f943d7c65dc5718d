from datetime import datetime, timedelta

from airflow import DAG
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator
from airflow.providers.google.cloud.transfers.gcs_to_bigquery import GCSToBigQueryOperator

PROJECT = "acme-data"

with DAG(
    dag_id="clicks_to_bq",
    start_date=datetime(2024, 5, 1),
    schedule="@daily",
    catchup=True,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
) as dag:
    load_raw = GCSToBigQueryOperator(
        task_id="load_raw",
        bucket="acme-clicks",
        source_objects=["clicks/{{ ds_nodash }}/*.json"],
        destination_project_dataset_table=f"{PROJECT}.raw.clicks",
        source_format="NEWLINE_DELIMITED_JSON",
        write_disposition="WRITE_APPEND",
    )

    summarise = BigQueryInsertJobOperator(
        task_id="summarise",
        configuration={
            "query": {
                "query": """
                    SELECT page, COUNT(*) AS clicks, DATE('{{ ds }}') AS day
                    FROM `acme-data.raw.clicks`
                    WHERE DATE(ts) = '{{ ds }}'
                    GROUP BY page
                """,
                "destinationTable": {"projectId": PROJECT, "datasetId": "mart", "tableId": "clicks_daily"},
                "writeDisposition": "WRITE_APPEND",
                "useLegacySql": False,
            }
        },
    )
    load_raw >> summarise
