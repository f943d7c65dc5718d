import json

import psycopg2
from kafka import KafkaConsumer

consumer = KafkaConsumer(
    "sensor-events",
    group_id="sensor-writer",
    bootstrap_servers=["kafka1:9092", "kafka2:9092"],
    enable_auto_commit=True,
    auto_offset_reset="earliest",
    value_deserializer=lambda v: json.loads(v.decode("utf-8")),
)
conn = psycopg2.connect(host="pg", dbname="iot", user="iot", password="iot")
cur = conn.cursor()

QUERY = "INSERT INTO sensor_events (sensor, value, ts) VALUES (%s, %s, %s)"

for message in consumer:
    v = message.value
    cur.execute(QUERY, (v["sensor"], v["value"], v["ts"]))
    conn.commit()
