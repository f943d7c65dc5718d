"""Handle each message once, though the broker delivers some of them twice.

python payments.py sqlite:///payments.db          # or postgresql://user:password@host/database
"""

from __future__ import annotations

import json
import sys
from functools import partial

from sqlalchemy import Connection, text
from twice import Inbox, TwiceError

# What an at-least-once broker gives: m-2 comes twice, m-3 comes again with another amount.
DELIVERED = [
    ("m-1", '{"account": "ann", "cents": 1000}'),
    ("m-2", '{"account": "bob", "cents": 500}'),
    ("m-2", '{"account": "bob", "cents": 500}'),
    ("m-3", '{"account": "ann", "cents": 250}'),
    ("m-3", '{"account": "ann", "cents": 99999}'),
]


def book(body: str, connection: Connection) -> None:
    """An addition: done twice it would be wrong. It commits together with the memory that it was done."""
    connection.execute(
        text(
            # twice: ignore[TW506] the id of the message is recorded in the same transaction
            "INSERT INTO balances (account, cents) VALUES (:account, :cents) "
            "ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents"
        ),
        json.loads(body),
    )


def main(url: str) -> None:
    with Inbox(url, "payments") as inbox:
        with inbox.connect() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents INTEGER)"))
        for message_id, body in DELIVERED:
            try:
                handled = inbox.once(message_id, body, partial(book, body))
                print(f"{message_id}: {'booked' if handled else 'handled before'}")
            except TwiceError as error:
                print(f"{message_id}: refused ({error.what})")
            # Acknowledge to the broker here: after the commit, never before.
        with inbox.connect() as connection:
            for account, cents in connection.execute(text("SELECT account, cents FROM balances ORDER BY account")):
                print(f"{account}: {cents / 100:.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///payments.db")
