from datetime import date

from google.cloud import bigquery


def rebuild_day(client: bigquery.Client, day: date) -> None:
    """A single multi-statement job: both statements commit or neither does."""
    script = f"""
    BEGIN TRANSACTION;
    DELETE FROM mart.readings_daily WHERE day = DATE '{day}';
    INSERT INTO mart.readings_daily (device_id, day, avg_value)
    SELECT device_id, DATE '{day}', AVG(value)
    FROM raw.readings
    WHERE DATE(ts) = DATE '{day}'
    GROUP BY device_id;
    COMMIT TRANSACTION;
    """
    client.query(script).result()
