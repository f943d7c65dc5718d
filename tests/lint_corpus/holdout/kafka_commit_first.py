import json

from confluent_kafka import Consumer
from pymongo import MongoClient

mongo = MongoClient("mongodb://mongo:27017")
orders = mongo.shop.orders

c = Consumer({"bootstrap.servers": "kafka:9092", "group.id": "orders", "enable.auto.commit": "false"})
c.subscribe(["orders"])

batch = []
while True:
    msg = c.poll(0.5)
    if msg is None:
        continue
    if msg.error():
        print(msg.error())
        continue
    batch.append(json.loads(msg.value()))
    if len(batch) >= 500:
        c.commit()
        orders.insert_many(batch)
        batch = []
