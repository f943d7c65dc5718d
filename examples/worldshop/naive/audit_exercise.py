"""An exercise: six lines of this function break when it runs a second time. Find them, then ask `twice lint`.

    twice lint naive/audit_exercise.py

The job copies yesterday's refunds from the shop into the warehouse. It has worked every night for a year; nobody has
had to run it twice. The same job without the six is in ../audit_exercise_fixed.py.
"""

from __future__ import annotations

import random
import uuid
from datetime import datetime, timedelta
from typing import Any

import requests

SLACK = "https://hooks.slack.com/services/T000/B000/refunds"


def load_refunds(shop: Any, warehouse: Any) -> None:
    yesterday = datetime.now() - timedelta(days=1)
    refunds = shop.cursor()
    refunds.execute(
        "SELECT order_id, amount, refunded_at FROM refunds WHERE refunded_at::date = %s", (yesterday.date(),)
    )

    batch_id = random.randint(1, 1_000_000)
    target = warehouse.cursor()
    for order_id, amount, refunded_at in refunds.fetchall():
        refund_id = str(uuid.uuid4())
        target.execute(
            "INSERT INTO fact_refunds (refund_id, order_id, amount, refunded_at, batch_id) VALUES (%s, %s, %s, %s, %s)",
            (refund_id, order_id, amount, refunded_at, batch_id),
        )
    warehouse.commit()

    target.execute("UPDATE etl_watermark SET loaded_until = %s WHERE job = 'refunds'", (yesterday.date(),))
    warehouse.commit()

    requests.post(SLACK, json={"text": f"refunds of {yesterday:%Y-%m-%d} loaded"}, timeout=10)
