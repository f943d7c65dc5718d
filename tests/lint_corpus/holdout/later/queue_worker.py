import json
import os
import time

import pika
import psycopg2

conn = psycopg2.connect(os.environ["PG"])


def on_message(channel, method, properties, body):
    order = json.loads(body)
    with conn.cursor() as cur:
        cur.execute(
            "INSERT INTO orders (id, customer, total) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET total = EXCLUDED.total",
            (order["id"], order["customer"], order["total"]),
        )
        cur.execute("UPDATE customers SET orders_count = orders_count + 1 WHERE id = %s", (order["customer"],))
    conn.commit()
    channel.basic_ack(delivery_tag=method.delivery_tag)


def main():
    channel = pika.BlockingConnection(pika.ConnectionParameters("rabbit")).channel()
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume("orders", on_message)
    channel.start_consuming()


if __name__ == "__main__":
    main()
