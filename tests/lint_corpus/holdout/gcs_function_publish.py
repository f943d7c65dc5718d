import base64
import json
import logging

from google.cloud import pubsub_v1, storage

publisher = pubsub_v1.PublisherClient()
TOPIC = publisher.topic_path("acme", "thumbnails")
bucket = storage.Client().bucket("acme-images")


def resize(event, context):
    """Triggered by a message; at least once."""
    message = json.loads(base64.b64decode(event["data"]))
    blob = bucket.blob(message["name"])
    data = blob.download_as_bytes()
    small = data[: len(data) // 2]
    bucket.blob(f"small/{message['name']}").upload_from_string(small)
    publisher.publish(TOPIC, json.dumps({"name": message["name"]}).encode())
    logging.info("resized %s", message["name"])
