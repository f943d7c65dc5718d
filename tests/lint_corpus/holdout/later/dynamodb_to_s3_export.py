import json
import time
import uuid
from datetime import datetime

import boto3

dynamodb = boto3.client("dynamodb")


def lambda_handler(event, context):
    """Starts the export of the table for the day the schedule names."""
    day = event["time"][:10]
    return dynamodb.export_table_to_point_in_time(
        TableArn=event["table"],
        S3Bucket="exports",
        S3Prefix=f"orders/{day}",
        ClientToken=f"orders-{day}",
        ExportFormat="DYNAMODB_JSON",
        ExportTime=datetime.fromisoformat(event["time"].replace("Z", "+00:00")),
    )["ExportDescription"]["ExportArn"]
