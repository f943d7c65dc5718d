import boto3

table = boto3.resource("dynamodb").Table("page_views")


def handler(event, _context):
    for record in event["Records"]:
        page = record["kinesis"]["partitionKey"]
        table.update_item(
            Key={"page": page},
            UpdateExpression="ADD views :one",
            ExpressionAttributeValues={":one": 1},
        )
