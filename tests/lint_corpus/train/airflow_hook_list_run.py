import pendulum
from airflow.decorators import dag, task
from airflow.providers.postgres.hooks.postgres import PostgresHook


@dag(schedule="@daily", start_date=pendulum.datetime(2024, 2, 1, tz="UTC"), catchup=True, max_active_runs=1)
def customer_daily_atomic():
    @task(retries=2)
    def rebuild(ds=None):
        hook = PostgresHook(postgres_conn_id="dwh")
        # A list of statements goes through one connection and one commit.
        hook.run(
            [
                "DELETE FROM mart.customer_daily WHERE day = %(day)s",
                """
                INSERT INTO mart.customer_daily (day, customer_id, orders)
                SELECT order_date, customer_id, count(*) FROM core.orders
                WHERE order_date = %(day)s GROUP BY 1, 2
                """,
            ],
            autocommit=False,
            parameters={"day": ds},
        )

    rebuild()


customer_daily_atomic()
