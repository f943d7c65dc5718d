"""The shop's queue and inbox, run twice, on both databases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOP = Path(__file__).resolve().parents[2] / "examples" / "worldshop"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("database")


def printed(script: str, url: str) -> list[str]:
    done = subprocess.run([sys.executable, SHOP / script, url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_order_gets_one_invoice_and_a_second_run_writes_none(url: str) -> None:
    letter = "dead letter order-013: ValueError: customer 6 has no address"
    first = ["30 new orders, 29 invoices written, 1 attempts failed", letter, "29 invoices for 29 orders"]
    assert printed("invoices.py", url) == first
    again = ["0 new orders, 0 invoices written, 0 attempts failed", letter, "29 invoices for 29 orders"]
    assert printed("invoices.py", url) == again


def test_every_payment_is_booked_once_and_a_forged_one_is_refused(url: str) -> None:
    refused = "m-3: refused (this message was handled before with another body)"
    balances = ["ann: 12.50", "bob: 5.00"]
    assert printed("payments.py", url) == [
        *("m-1: booked", "m-2: booked", "m-2: handled before", "m-3: booked", refused),
        *balances,
    ]
    assert printed("payments.py", url) == [
        *("m-1: handled before", "m-2: handled before", "m-2: handled before", "m-3: handled before", refused),
        *balances,
    ]
