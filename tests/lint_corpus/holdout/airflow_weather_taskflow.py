import os
from datetime import date, timedelta

import pandas as pd
import pendulum
import requests
from airflow.decorators import dag, task
from sqlalchemy import create_engine

API = "https://api.example-weather.org/v2/history"


@dag(
    schedule="30 5 * * *",
    start_date=pendulum.datetime(2023, 11, 1),
    catchup=False,
    default_args={"retries": 5},
)
def weather():
    @task
    def extract():
        end = date.today()
        start = end - timedelta(days=1)
        resp = requests.get(
            API,
            params={"from": start.isoformat(), "to": end.isoformat(), "key": os.environ["WEATHER_KEY"]},
            timeout=60,
        )
        resp.raise_for_status()
        return resp.json()["observations"]

    @task
    def load(observations):
        df = pd.DataFrame(observations)
        df.columns = [c.lower() for c in df.columns]
        engine = create_engine(os.environ["DWH_URL"])
        df.to_sql("weather_observations", engine, schema="raw", if_exists="append", index=False)
        requests.post(
            os.environ["SLACK_WEBHOOK"],
            json={"text": f"loaded {len(df)} observations"},
            timeout=10,
        )

    load(extract())


weather()
