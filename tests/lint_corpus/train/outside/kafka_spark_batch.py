from kafka import KafkaProducer
import json
import pandas as pd

producer = KafkaProducer(bootstrap_servers="kafka:9092", value_serializer=lambda v: json.dumps(v).encode())


def publish(path):
    for row in pd.read_parquet(path).to_dict("records"):
        producer.send("prices", row)
    producer.flush()
