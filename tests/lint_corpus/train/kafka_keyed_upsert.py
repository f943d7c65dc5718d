import json
import logging

import psycopg2
from confluent_kafka import Consumer

log = logging.getLogger("writer")
UPSERT = """
    INSERT INTO sensor_events (sensor, offset_no, part, value, ts)
    VALUES (%(sensor)s, %(offset)s, %(partition)s, %(value)s, %(ts)s)
    ON CONFLICT (part, offset_no) DO NOTHING
"""


def run(config: dict, dsn: str) -> None:
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe(["sensor-events"])
    conn = psycopg2.connect(dsn)
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        body = json.loads(message.value())
        with conn, conn.cursor() as cur:
            cur.execute(UPSERT, {**body, "offset": message.offset(), "partition": message.partition()})
        consumer.commit(message, asynchronous=False)
