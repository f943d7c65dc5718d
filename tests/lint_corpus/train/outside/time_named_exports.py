import json
import time
from datetime import datetime

import boto3

s3 = boto3.client("s3")


def export(rows):
    name = f"export_{int(time.time())}.json"
    s3.put_object(Bucket="exports", Key=f"orders/{name}", Body=json.dumps(rows))


def snapshot(rows):
    key = "snapshots/" + datetime.utcnow().strftime("%Y/%m/%d/%H%M") + ".json"
    s3.put_object(Bucket="exports", Key=key, Body=json.dumps(rows))
