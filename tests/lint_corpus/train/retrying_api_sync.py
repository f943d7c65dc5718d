import logging
import os
import uuid

import requests
from tenacity import retry, stop_after_attempt, wait_fixed

API = "https://erp.example.com/api"
log = logging.getLogger(__name__)


@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))
def create_order(order):
    payload = {**order, "external_id": str(uuid.uuid4())}
    r = requests.post(f"{API}/orders", json=payload, headers={"Authorization": os.environ["ERP_TOKEN"]}, timeout=20)
    r.raise_for_status()
    return r.json()["id"]


@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))
def create_order_once(order):
    r = requests.post(
        f"{API}/orders",
        json=order,
        headers={"Authorization": os.environ["ERP_TOKEN"], "Idempotency-Key": f"order-{order['number']}"},
        timeout=20,
    )
    r.raise_for_status()
    return r.json()["id"]


def put_price(sku, price):
    requests.put(f"{API}/prices/{sku}", json={"price": price}, timeout=20).raise_for_status()
