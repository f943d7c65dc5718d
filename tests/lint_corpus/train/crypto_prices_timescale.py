"""Collects candles for a list of symbols. Scheduled every five minutes by systemd."""
import argparse
import logging
import os
import time
from contextlib import closing

import psycopg2
import requests
from psycopg2.extras import execute_values

LOG = logging.getLogger("candles")
SYMBOLS = ["BTCEUR", "ETHEUR", "SOLEUR"]


def get_candles(symbol, start, end):
    url = "https://exchange.example.com/api/v3/klines"
    out = []
    while start < end:
        reply = requests.get(url, params=dict(symbol=symbol, interval="1m", startTime=start, endTime=end, limit=1000), timeout=15)
        if reply.status_code == 429:
            time.sleep(int(reply.headers.get("Retry-After", 1)))
            continue
        reply.raise_for_status()
        chunk = reply.json()
        if not chunk:
            break
        out.extend(chunk)
        start = chunk[-1][0] + 60_000
    return out


def store(conn, symbol, candles):
    rows = [(symbol, c[0], c[1], c[2], c[3], c[4], c[5]) for c in candles]
    with conn.cursor() as cur:
        execute_values(
            cur,
            """
            INSERT INTO candles (symbol, open_time, open, high, low, close, volume)
            VALUES %s
            ON CONFLICT (symbol, open_time) DO UPDATE SET
                high = EXCLUDED.high, low = EXCLUDED.low, close = EXCLUDED.close, volume = EXCLUDED.volume
            """,
            rows,
        )
    conn.commit()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--start", type=int, required=True)
    ap.add_argument("--end", type=int, required=True)
    ns = ap.parse_args()
    with closing(psycopg2.connect(os.environ["TSDB"])) as conn:
        for symbol in SYMBOLS:
            try:
                candles = get_candles(symbol, ns.start, ns.end)
                store(conn, symbol, candles)
            except requests.HTTPError:
                LOG.exception("giving up on %s", symbol)
                raise


if __name__ == "__main__":
    main()
