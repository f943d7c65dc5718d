"""Work through a queue: each order of the day gets one invoice, whoever dies on the way.

    python invoices.py sqlite:///invoices.db          # or postgresql://user:password@host/database

Run it as often as you like, in as many terminals as you like.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from sqlalchemy import Connection, text
from twice import Item, Retry, WorkQueue

ORDERS = {f"order-{number:03d}": {"customer": number % 7, "total": f"{number * 3}.50"} for number in range(1, 31)}


def write_invoice(item: Item, connection: Connection) -> None:
    """On the queue's own connection: the invoice and the item's completion commit together, or not at all."""
    if item.id == "order-013":
        raise ValueError("customer 6 has no address")  # permanent: a dead letter at once, not five times
    connection.execute(
        # twice: ignore[TW302] it commits with the item's completion, which happens once
        text("INSERT INTO invoices (order_id, total) VALUES (:order_id, :total)"),
        {"order_id": item.id, "total": item.body["total"]},
    )


def main(url: str) -> None:
    with WorkQueue(url, "invoices", lease=timedelta(seconds=30), retry=Retry(attempts=5)) as queue:
        # An example's table; yours is there already. It has no key on purpose: nothing but the queue keeps it right.
        with queue.connect() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS invoices (order_id TEXT, total TEXT)"))
        new = sum(queue.put(order_id, body) for order_id, body in ORDERS.items())
        worked = queue.work(write_invoice)
        print(f"{new} new orders, {worked.done} invoices written, {worked.failed} attempts failed")
        for item in queue.dead():
            print(f"dead letter {item.id}: {item.error}")
        with queue.connect() as connection:
            written = connection.execute(text("SELECT count(*), count(DISTINCT order_id) FROM invoices")).one()
        print(f"{written[0]} invoices for {written[1]} orders")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///invoices.db")
