# pylint: disable=all
import os
import datetime
import pandas as pd
import pandas_gbq
from google.oauth2 import service_account

URL = "https://covid.example.org/data/owid-{}.csv"
creds = service_account.Credentials.from_service_account_file(os.path.expanduser("~/sa.json"))


def clean(df):
    df = df.rename(columns=str.lower)
    df = df[df["continent"].notna()]
    df["new_cases"] = df["new_cases"].fillna(0).astype(int)
    df["key"] = df["iso_code"] + "_" + df["date"]
    df = df.drop_duplicates("key")
    return df


def top_countries(df, n=10):
    return df.groupby("location")["new_cases"].sum().nlargest(n)


def main(request=None):
    d = datetime.date.today().strftime("%Y-%m-%d")
    df = pd.read_csv(URL.format(d))
    df = clean(df)
    df["run_ts"] = pd.Timestamp.utcnow()
    print(top_countries(df))
    pandas_gbq.to_gbq(df, "covid.cases", project_id="acme", if_exists="append", credentials=creds)
    return "ok", 200
