from airflow.decorators import dag, task
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from pendulum import datetime

BUILD = """
BEGIN;
DROP TABLE IF EXISTS mart.customer_360_next;
CREATE TABLE mart.customer_360_next AS
SELECT c.id, c.name, count(o.id) AS orders, max(o.created_at) AS last_order
FROM core.customer c LEFT JOIN core.orders o ON o.customer_id = c.id
GROUP BY c.id, c.name;
DROP TABLE IF EXISTS mart.customer_360;
ALTER TABLE mart.customer_360_next RENAME TO customer_360;
COMMIT;
"""


@dag(start_date=datetime(2024, 1, 1), schedule="@daily", catchup=False, default_args={"retries": 3})
def customer_360():
    SQLExecuteQueryOperator(task_id="build", conn_id="dwh", sql=BUILD, split_statements=False)


customer_360()
