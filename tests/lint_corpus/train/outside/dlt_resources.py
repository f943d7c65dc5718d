import dlt
from dlt.sources.helpers import requests


@dlt.resource(table_name="issues", write_disposition="append")
def issues():
    yield requests.get("https://api.example.com/issues").json()


@dlt.resource(table_name="users", write_disposition="merge", primary_key="id")
def users():
    yield requests.get("https://api.example.com/users").json()


if __name__ == "__main__":
    pipeline = dlt.pipeline("tracker", destination="duckdb", dataset_name="raw")
    pipeline.run([issues(), users()])
