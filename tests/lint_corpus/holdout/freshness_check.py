"""Fails when a table has not been updated lately. Reads only."""
from datetime import datetime, timedelta, timezone

import psycopg2
from tenacity import retry, stop_after_attempt, wait_exponential

LIMITS = {"mart.orders": timedelta(hours=6), "mart.visits": timedelta(hours=2)}


@retry(stop=stop_after_attempt(3), wait=wait_exponential())
def newest(cur, table):
    cur.execute(f"SELECT max(loaded_at) FROM {table}")
    return cur.fetchone()[0]


def main():
    now = datetime.now(timezone.utc)
    late = []
    with psycopg2.connect("service=dwh") as conn, conn.cursor() as cur:
        for table, limit in LIMITS.items():
            stamp = newest(cur, table)
            if stamp is None or now - stamp > limit:
                late.append(table)
        cur.execute("SELECT count(*) FROM mart.orders WHERE ordered_at > now() - interval '1 hour'")
        print("orders in the last hour:", cur.fetchone()[0])
    if late:
        raise SystemExit(f"late: {', '.join(late)}")


if __name__ == "__main__":
    main()
