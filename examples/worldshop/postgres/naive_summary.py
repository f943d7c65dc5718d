"""The same summary as people write it first: row by row, committed now and then so that nothing is lost.

Killed part-way and retried, it has the first rows twice and ends with exit code 0.
"""

from __future__ import annotations

import os
import sys

import psycopg

CHUNK = 20_000


def main(day: str) -> None:
    with psycopg.connect(os.environ["SHOP_URL"]) as connection:
        rows = connection.execute(
            "SELECT order_date, customer_id, count(*), sum(amount) FROM shop.orders WHERE order_date = %s"
            " GROUP BY order_date, customer_id ORDER BY customer_id",
            [day],
        ).fetchall()
        for start in range(0, len(rows), CHUNK):
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO naive.summary VALUES (%s, %s, %s, %s)", rows[start : start + CHUNK])
            connection.commit()
            print(f"{min(start + CHUNK, len(rows)):,} of {len(rows):,} rows inserted", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
