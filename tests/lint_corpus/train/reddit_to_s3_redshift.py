import configparser
import datetime as dt
import pathlib
import sys

import boto3
import pandas as pd
import praw
import psycopg2
from psycopg2 import sql

here = pathlib.Path(__file__).parent
cfg = configparser.ConfigParser()
cfg.read(here / "pipeline.conf")

TABLE = "reddit_posts"
try:
    output_name = sys.argv[1]
except IndexError:
    output_name = dt.datetime.now().strftime("%Y%m%d")

FIELDS = ("id", "title", "score", "num_comments", "created_utc")


def extract():
    reddit = praw.Reddit(client_id=cfg["reddit"]["id"], client_secret=cfg["reddit"]["secret"], user_agent="etl")
    posts = reddit.subreddit("dataengineering").top(time_filter="day", limit=None)
    return pd.DataFrame([{f: vars(p)[f] for f in FIELDS} for p in posts])


def to_s3(frame):
    path = f"/tmp/{output_name}.csv"
    frame.to_csv(path, index=False)
    boto3.resource("s3").meta.client.upload_file(path, cfg["aws"]["bucket"], f"{output_name}.csv")


def to_redshift():
    rs = psycopg2.connect(cfg["redshift"]["dsn"])
    create = sql.SQL("CREATE TABLE IF NOT EXISTS {t} (id varchar PRIMARY KEY, title varchar(max), score int, num_comments int, created_utc timestamp)").format(t=sql.Identifier(TABLE))
    stage = sql.SQL("CREATE TEMP TABLE staging (LIKE {t});").format(t=sql.Identifier(TABLE))
    copy = f"COPY staging FROM 's3://{cfg['aws']['bucket']}/{output_name}.csv' iam_role '{cfg['aws']['role']}' IGNOREHEADER 1 DELIMITER ',' CSV;"
    delete = sql.SQL("DELETE FROM {t} USING staging WHERE {t}.id = staging.id;").format(t=sql.Identifier(TABLE))
    insert = sql.SQL("INSERT INTO {t} SELECT * FROM staging;").format(t=sql.Identifier(TABLE))
    with rs:
        cur = rs.cursor()
        cur.execute(create)
        cur.execute(stage)
        cur.execute(copy)
        cur.execute(delete)
        cur.execute(insert)


if __name__ == "__main__":
    to_s3(extract())
    to_redshift()
