"""Thin layer over psycopg2 that the jobs of this folder share."""
import contextlib
import os

import psycopg2


@contextlib.contextmanager
def transaction():
    conn = psycopg2.connect(os.environ["DWH"])
    try:
        yield conn.cursor()
        conn.commit()
    except Exception:
        conn.rollback()
        raise
    finally:
        conn.close()


def execute(sql, params=None):
    with transaction() as cur:
        cur.execute(sql, params)
