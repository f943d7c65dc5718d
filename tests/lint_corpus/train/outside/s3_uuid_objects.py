import json
from uuid import uuid4

import boto3

s3 = boto3.resource("s3")
BUCKET = "events-raw"


def store_event(event):
    s3.Object(BUCKET, f"events/{event['day']}/{uuid4()}.json").put(Body=json.dumps(event))


def store_report(day, body):
    s3.Object(BUCKET, f"reports/{day}.json").put(Body=body)
