import pandas as pd
import redis
import json

r = redis.Redis(host="redis")


def push(path):
    """Features are addressed by user: pushing again replaces."""
    df = pd.read_parquet(path)
    pipe = r.pipeline()
    for row in df.itertuples(index=False):
        pipe.set(f"features:{row.user_id}", json.dumps(row._asdict(), default=str))
    pipe.execute()


def count_clicks(events):
    for e in events:
        r.hincrby("clicks", e["page"], 1)
        r.lpush("recent", json.dumps(e))
