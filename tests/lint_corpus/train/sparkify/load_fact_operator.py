from airflow.models import BaseOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook


class LoadFactOperator(BaseOperator):
    """Runs ``insert into <table> <select>`` on the cluster."""

    ui_color = "#8a6fdf"

    def __init__(self, redshift_conn_id="redshift", table="", select_sql="", *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.redshift_conn_id = redshift_conn_id
        self.table = table
        self.select_sql = select_sql

    def execute(self, context):
        redshift = PostgresHook(postgres_conn_id=self.redshift_conn_id)
        self.log.info("Appending to %s", self.table)
        statement = f"INSERT INTO {self.table} {self.select_sql}"
        redshift.run(statement)


class LoadDimensionOperator(BaseOperator):
    """Empties and refills a dimension."""

    def __init__(self, redshift_conn_id="redshift", table="", select_sql="", truncate=True, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.redshift_conn_id = redshift_conn_id
        self.table = table
        self.select_sql = select_sql
        self.truncate = truncate

    def execute(self, context):
        redshift = PostgresHook(postgres_conn_id=self.redshift_conn_id)
        if self.truncate:
            redshift.run(f"TRUNCATE TABLE {self.table}")
        redshift.run(f"INSERT INTO {self.table} {self.select_sql}")
