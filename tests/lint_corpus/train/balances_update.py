"""Apply the bookings of one file to the account balances."""
import csv
import sys

import psycopg2


def apply_bookings(path, conn):
    with open(path) as f:
        reader = csv.DictReader(f)
        with conn.cursor() as cur:
            for booking in reader:
                cur.execute(
                    "UPDATE accounts SET balance = balance + %s WHERE account_no = %s",
                    (booking["amount"], booking["account"]),
                )
    conn.commit()


def close_day(conn, day):
    cur = conn.cursor()
    cur.execute("SELECT stock FROM warehouse_stock WHERE sku = 'PALLET'")
    (stock,) = cur.fetchone()
    cur.execute("UPDATE warehouse_stock SET stock = %s WHERE sku = 'PALLET'", (stock - 1,))
    conn.commit()


if __name__ == "__main__":
    connection = psycopg2.connect("dbname=bank")
    apply_bookings(sys.argv[1], connection)
    close_day(connection, sys.argv[2])
