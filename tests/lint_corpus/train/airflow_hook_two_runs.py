from __future__ import annotations

import pendulum
from airflow.decorators import dag, task
from airflow.providers.postgres.hooks.postgres import PostgresHook

TARGET = "mart.customer_daily"


@dag(schedule="0 4 * * *", start_date=pendulum.datetime(2024, 2, 1, tz="UTC"), catchup=False)
def customer_daily():
    @task
    def clear(ds=None):
        hook = PostgresHook(postgres_conn_id="dwh")
        hook.run(f"DELETE FROM {TARGET} WHERE day = '{ds}'")

    @task
    def fill(ds=None):
        hook = PostgresHook(postgres_conn_id="dwh")
        hook.run(
            f"""
            INSERT INTO {TARGET} (day, customer_id, orders, revenue)
            SELECT '{ds}', customer_id, count(*), sum(amount)
            FROM core.orders
            WHERE order_date = '{ds}'
            GROUP BY customer_id
            """
        )

    clear() >> fill()


customer_daily()
