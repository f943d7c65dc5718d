# -*- coding: utf-8 -*-
from datetime import datetime, timedelta
import json
import logging

from airflow import DAG
from airflow.providers.http.hooks.http import HttpHook
from airflow.providers.mysql.hooks.mysql import MySqlHook
from airflow.operators.python import PythonOperator
import pandas as pd

http_hook = HttpHook(method="GET", http_conn_id="ads_api")
mysql_hook = MySqlHook(mysql_conn_id="marketing")

default_args = {
    "owner": "marketing",
    "start_date": datetime(2021, 3, 1),
    "retries": 2,
    "retry_delay": timedelta(minutes=10),
}


def get_costs(**kwargs):
    day = (datetime.today() - timedelta(days=1)).strftime("%Y-%m-%d")
    res = http_hook.run("v1/costs", data={"start": day, "end": day})
    frame = pd.json_normalize(json.loads(res.text)["rows"])
    frame["day"] = day
    kwargs["ti"].xcom_push(key="costs", value=frame.to_json())


def load_costs(**kwargs):
    frame = pd.read_json(kwargs["ti"].xcom_pull(key="costs"))
    mysql_hook.run("delete from ad_costs where day = '%s'" % frame["day"][0])
    mysql_hook.insert_rows(table="ad_costs", rows=frame.values.tolist(), commit_every=500)
    logging.info("loaded %s rows", len(frame))


dag = DAG("marketing_costs", default_args=default_args, schedule_interval="0 6 * * *", catchup=False)
t1 = PythonOperator(task_id="get", python_callable=get_costs, dag=dag)
t2 = PythonOperator(task_id="load", python_callable=load_costs, dag=dag)
t1 >> t2
