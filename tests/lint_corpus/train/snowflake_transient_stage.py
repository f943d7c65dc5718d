import snowflake.connector


def load(ctx, day: str) -> None:
    cur = ctx.cursor()
    cur.execute("CREATE OR REPLACE TEMPORARY TABLE stage_orders LIKE mart.orders")
    cur.execute(f"COPY INTO stage_orders FROM @lake/orders/{day}/ FILE_FORMAT = (TYPE = PARQUET)")
    cur.execute(
        """
        MERGE INTO mart.orders t
        USING (
            SELECT * FROM stage_orders
            QUALIFY ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY updated_at DESC, file_row DESC) = 1
        ) s
        ON t.order_id = s.order_id
        WHEN MATCHED AND s.updated_at > t.updated_at THEN UPDATE SET t.status = s.status, t.updated_at = s.updated_at
        WHEN NOT MATCHED THEN INSERT (order_id, status, updated_at) VALUES (s.order_id, s.status, s.updated_at)
        """
    )


if __name__ == "__main__":
    import sys

    with snowflake.connector.connect(connection_name="etl") as connection:
        load(connection, sys.argv[1])
