import gzip
import json
import logging
from datetime import datetime, timedelta, timezone

import requests
from google.cloud import bigquery

logger = logging.getLogger(__name__)
client = bigquery.Client()
TABLE_ID = "proj.github.events"


def previous_hour():
    return datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)


def main(event=None, context=None):
    hour = previous_hour()
    url = f"https://data.gharchive.example/{hour:%Y-%m-%d}-{hour.hour}.json.gz"
    raw = gzip.decompress(requests.get(url, timeout=120).content)
    rows = [json.loads(line) for line in raw.splitlines()]
    job = client.load_table_from_json(rows, TABLE_ID, job_config=bigquery.LoadJobConfig(autodetect=True))
    job.result()
    logger.info("loaded %d events of %s", len(rows), hour)
