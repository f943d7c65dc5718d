"""Paying out a day, as people write it first: look whether it was sent, post it, note that it was sent.

    python -m naive.payouts --date 2026-06-09

**The incident: the partners who were paid twice.** The pod was evicted between the post and the note. The retry found
no note, posted again, exited 0. Five partners had their money twice; the bank wanted it explained.

Why: there is a moment after `post` and before `mark_sent` in which the money has moved and nobody here knows it. Noting
it *before* the post only moves the moment: then the crash leaves a note and no payment, for ever. No order of these
three lines is right, and a `try`/`except` around them is not either: a killed process runs no handler.

`pipelines/payouts.py` differs in three things. The note (`sending`) comes before the post *and* a second one (`sent`)
after it, so a crash in between is seen. The post carries a key that is the same in every try, so that the receiver can
tell the second from the first. And it is about rows that were audited and committed, not of rows that the next crash
may take back.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from pathlib import Path

import local_spark

URL = "http://127.0.0.1:8799/payouts"


def already_sent(notes: Path, day: str) -> bool:
    return (notes / day).exists()


def post(day: str, payouts: list[dict[str, str]]) -> None:
    body = json.dumps({"day": day, "payouts": payouts}).encode()
    urllib.request.urlopen(urllib.request.Request(URL, body, {"Content-Type": "application/json"}), timeout=10).close()


def mark_sent(notes: Path, day: str) -> None:
    notes.mkdir(parents=True, exist_ok=True)
    (notes / day).touch()


def pay_out(warehouse: Path, day: str) -> None:
    notes = warehouse / "naive" / "payouts_sent"
    if already_sent(notes, day):
        return
    spark = local_spark.start(warehouse)
    revenue = spark.read.format("delta").load(str(warehouse / "shop" / "revenue_daily"))
    rows = revenue.where(f"order_date = DATE '{day}'").selectExpr("region", "revenue * 0.20 AS amount").collect()
    post(day, [{"partner": row.region, "amount": str(row.amount)} for row in rows])
    # Killed here, the money has moved, and the next run moves it again.
    mark_sent(notes, day)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pay out one day.")
    parser.add_argument("--date", required=True)
    parser.add_argument("--warehouse", type=Path, default=Path("warehouse"))
    asked = parser.parse_args()
    pay_out(asked.warehouse, asked.date)


if __name__ == "__main__":
    main()
