"""Writes how long the run took to the metrics table; one row per run on purpose."""
import time
from contextlib import contextmanager
from datetime import datetime, timezone

import psycopg2


@contextmanager
def recorded(job):
    started = datetime.now(timezone.utc)
    t = time.perf_counter()
    try:
        yield
    finally:
        with psycopg2.connect("dbname=ops") as conn, conn.cursor() as cur:
            cur.execute(
                "INSERT INTO job_runs_log (job, started, seconds) VALUES (%s, %s, %s)",
                (job, started, time.perf_counter() - t),
            )
