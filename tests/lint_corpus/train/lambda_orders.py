import json
import os
import random
import uuid
from decimal import Decimal

import boto3

table = boto3.resource("dynamodb").Table(os.environ["TABLE"])
sns = boto3.client("sns")


def handler(event, context):
    for record in event["Records"]:
        order = json.loads(record["body"], parse_float=Decimal)
        order["pk"] = str(uuid.uuid4())
        order["shard"] = random.randint(0, 9)
        table.put_item(Item=order)
        sns.publish(TopicArn=os.environ["TOPIC"], Message=json.dumps({"order": order["number"]}))
    return {"ok": True}
