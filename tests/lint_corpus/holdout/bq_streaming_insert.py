from google.cloud import bigquery

bq = bigquery.Client(project="acme")


def rollup():
    query = """
        SELECT device_id, AVG(value) AS avg_value, CURRENT_DATE() AS day
        FROM `acme.raw.readings`
        WHERE DATE(ts) = CURRENT_DATE() - 1
        GROUP BY device_id
    """
    rows = [dict(r) for r in bq.query(query).result()]
    for r in rows:
        r["day"] = r["day"].isoformat()
    errors = bq.insert_rows_json("acme.mart.readings_daily", rows)
    if errors:
        raise RuntimeError(errors)


if __name__ == "__main__":
    rollup()
