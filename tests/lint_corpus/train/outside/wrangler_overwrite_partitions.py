import awswrangler as wr


def handler(event, context):
    df = wr.s3.read_csv(event["path"])
    wr.s3.to_parquet(
        df=df,
        path="s3://curated/trips/",
        dataset=True,
        mode="overwrite_partitions",
        partition_cols=["pickup_date"],
        database="lake",
        table="trips",
    )
