from airflow.decorators import dag, task
from airflow.providers.postgres.hooks.postgres import PostgresHook
import pendulum


@dag(schedule="@daily", start_date=pendulum.datetime(2024, 1, 1), catchup=False)
def currency():
    @task
    def load(rows):
        PostgresHook("dw").insert_rows(
            table="currency", rows=rows, target_fields=["code", "rate"], replace=True, replace_index="code"
        )

    @task
    def fetch():
        return [("EUR", 1.0)]

    load(fetch())


currency()
