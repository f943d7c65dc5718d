from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.email import EmailOperator
from airflow.operators.python import PythonOperator
from airflow.providers.mysql.hooks.mysql import MySqlHook


def aggregate(**context):
    day = context["ds"]
    hook = MySqlHook(mysql_conn_id="dw")
    conn = hook.get_conn()
    cur = conn.cursor()
    cur.execute("DELETE FROM agg_daily WHERE d = %s", (day,))
    cur.execute("INSERT INTO agg_daily SELECT d, shop, SUM(v) FROM facts WHERE d = %s GROUP BY d, shop", (day,))
    conn.commit()
    cur.close()
    conn.close()


with DAG("agg", start_date=datetime(2024, 1, 1), schedule="@daily", default_args={"retries": 2, "retry_delay": timedelta(minutes=1)}) as dag:
    a = PythonOperator(task_id="aggregate", python_callable=aggregate)
    b = EmailOperator(task_id="mail", to="team@example.com", subject="agg {{ ds }}", html_content="done")
    a >> b
