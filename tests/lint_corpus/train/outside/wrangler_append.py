import awswrangler as wr
import boto3
import pandas as pd

session = boto3.Session(region_name="eu-west-1")


def handler(event, context):
    bucket = event["Records"][0]["s3"]["bucket"]["name"]
    key = event["Records"][0]["s3"]["object"]["key"]
    df = wr.s3.read_csv(f"s3://{bucket}/{key}", boto3_session=session)
    df = df.rename(columns=str.lower)
    wr.s3.to_parquet(
        df=df,
        path="s3://curated/trips/",
        dataset=True,
        mode="append",
        database="lake",
        table="trips",
        partition_cols=["pickup_date"],
    )
    return {"rows": len(df)}
