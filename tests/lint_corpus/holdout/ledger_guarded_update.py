import psycopg2

CLAIM = """
INSERT INTO applied_bookings (booking_id) VALUES (%s)
ON CONFLICT (booking_id) DO NOTHING
RETURNING booking_id
"""


def apply_booking(conn, booking):
    """The claim and the balance change commit together; a repeated booking claims nothing."""
    with conn:
        with conn.cursor() as cur:
            cur.execute(CLAIM, (booking["id"],))
            if cur.fetchone() is None:
                return False
            cur.execute(
                "UPDATE accounts SET balance = balance + %s WHERE account_no = %s",
                (booking["amount"], booking["account"]),
            )
    return True


if __name__ == "__main__":
    import json
    import sys

    connection = psycopg2.connect("dbname=bank")
    for line in sys.stdin:
        apply_booking(connection, json.loads(line))
