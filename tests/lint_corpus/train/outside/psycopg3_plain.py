import json
import psycopg
from psycopg.rows import dict_row


def ingest(lines, dsn):
    with psycopg.connect(dsn, row_factory=dict_row) as conn:
        for line in lines:
            doc = json.loads(line)
            conn.execute(
                "INSERT INTO readings (sensor, at, value) VALUES (%(sensor)s, %(at)s, %(value)s)",
                doc,
            )
