from datetime import datetime

from airflow import DAG
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator

with DAG(dag_id="clicks_partitioned", start_date=datetime(2024, 5, 1), schedule="@daily", catchup=True) as dag:
    BigQueryInsertJobOperator(
        task_id="clicks_daily",
        retries=4,
        configuration={
            "query": {
                "query": """
                    SELECT page, COUNT(*) AS clicks, DATE('{{ ds }}') AS day
                    FROM `acme-data.raw.clicks`
                    WHERE DATE(ts) = '{{ ds }}'
                    GROUP BY page
                """,
                "destinationTable": {
                    "projectId": "acme-data",
                    "datasetId": "mart",
                    "tableId": "clicks_daily${{ ds_nodash }}",
                },
                "writeDisposition": "WRITE_TRUNCATE",
                "createDisposition": "CREATE_IF_NEEDED",
                "useLegacySql": False,
            }
        },
    )
