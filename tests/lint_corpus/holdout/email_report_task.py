import smtplib
from datetime import datetime
from email.message import EmailMessage

from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook


def send_report(ds, **_):
    rows = PostgresHook("dwh").get_records("SELECT region, revenue FROM mart.daily WHERE day = %s ORDER BY 1", parameters=(ds,))
    msg = EmailMessage()
    msg["Subject"] = f"Revenue {ds}"
    msg["To"] = "board@example.com"
    msg.set_content("\n".join(f"{region}: {revenue}" for region, revenue in rows))
    with smtplib.SMTP("mail") as smtp:
        smtp.send_message(msg)


with DAG("revenue_mail", start_date=datetime(2024, 1, 1), schedule="0 7 * * *", catchup=True) as dag:
    PythonOperator(task_id="send", python_callable=send_report, retries=2)
