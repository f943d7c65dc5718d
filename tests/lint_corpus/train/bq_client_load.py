import os

from google.cloud import bigquery

client = bigquery.Client()
TABLE = "acme.raw.sensor_readings"


def load_uri(uri):
    config = bigquery.LoadJobConfig(
        source_format=bigquery.SourceFormat.PARQUET,
        write_disposition=bigquery.WriteDisposition.WRITE_APPEND,
    )
    job = client.load_table_from_uri(uri, TABLE, job_config=config)
    job.result()
    print(f"loaded {job.output_rows} rows into {TABLE}")


def on_file(event, context):
    """Entry point of the cloud function."""
    load_uri(f"gs://{event['bucket']}/{event['name']}")
    sql = f"INSERT INTO `{os.environ['DATASET']}.load_log` (name, loaded) VALUES ('{event['name']}', CURRENT_TIMESTAMP())"
    client.query(sql).result()
