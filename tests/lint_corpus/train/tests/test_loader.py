import random
import uuid
from datetime import datetime

import pytest


@pytest.fixture
def table_name():
    return f"orders_{uuid.uuid4().hex[:8]}"


def test_load_inserts_all_rows(conn, table_name):
    cur = conn.cursor()
    cur.execute(f"CREATE TABLE {table_name} (id TEXT, amount INT, at TIMESTAMP)")
    for _ in range(10):
        cur.execute(f"INSERT INTO {table_name} VALUES (%s, %s, %s)", (str(uuid.uuid4()), random.randint(1, 9), datetime.now()))
    conn.commit()
    cur.execute(f"SELECT count(*) FROM {table_name}")
    assert cur.fetchone() == (10,)
