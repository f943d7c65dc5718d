"""A ledger with a long history, written by its database alone: one by one, five million attempts would take hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection, text

from twice.ledgers.database.connect import for_writing
from twice.ledgers.ledger import Ledger

DAY_ONE = datetime(2015, 1, 1, tzinfo=timezone.utc)
LONG_AGO = datetime(2026, 1, 1, tzinfo=timezone.utc)
SLICES = 100_000
"""Eleven years of hours."""

EFFECTS = 10
"""One effect for so many attempts, with two steps of its life."""

_NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < :attempts)"
# Ids are random in life: a number that is multiplied so lands anywhere in the index.
_ID = {
    "sqlite": "printf('%08x%024x', ({x} * 2654435761) % 4294967296, {x})",
    "postgresql": "lpad(to_hex(({x} * 2654435761) % 4294967296), 8, '0') || lpad(to_hex({x}), 24, '0')",
}
_ATTEMPTS = """
INSERT INTO twice_attempts (fence, id, task, kind, state, holder, started, finished, version, discarded, notes, seconds)
{numbers} SELECT x, {id}, :task, 'run', CASE WHEN (x - 1) / :slices % 2 = 0 THEN 'published' ELSE 'unchanged' END,
'host:1:1', :at, :at, x, {no}, '[]', '{{"stage": 0.4}}' FROM n
"""
_SLICES = """
INSERT INTO twice_slices (fence, label, task, expected, code_hash, inputs_hash, rows, fingerprint, aim)
{numbers} SELECT x, l.label, :task, (x - 1) / :slices / 2, 'c', 'i', 7, 'f', (x - 1) / :slices / 2 + 1
FROM n JOIN bench_labels l ON l.number = (x - 1) % :slices
"""
_INPUTS = """
INSERT INTO twice_inputs (fence, position, label, kind, name, identity, version)
{numbers} SELECT x, 0, l.label, 'table', 'shop.orders', NULL, x / 1000
FROM n JOIN bench_labels l ON l.number = (x - 1) % :slices
"""
_RUNS = """
INSERT INTO twice_runs (task, label, generation, attempt, code_hash, inputs_hash, rows, fingerprint, version, published,
last_fence) SELECT s.task, s.label, s.aim, a.id, 'c', 'i', 7, 'f', a.version, a.finished, :attempts - :slices + s.number
FROM (SELECT l.number + 1 AS number, l.label, s.task, s.aim, s.fence FROM bench_labels l
JOIN twice_slices s ON s.fence = :publishes + l.number + 1) s JOIN twice_attempts a ON a.fence = s.fence
"""
_EFFECTS = """
INSERT INTO twice_effects (key, task, label, name, kind, occasion, attempt, generation, fingerprint, state, keyed,
remembers, fence, prepared, changed)
{numbers} SELECT 'key ' || x, :task, l.label, 'tell', 'webhook', 'g' || x, {id}, 1, 'f', 'sent', {no}, 0, 1, :at, :at
FROM n JOIN bench_labels l ON l.number = (x - 1) % :slices
"""
_EVENTS = """
INSERT INTO twice_effect_events (effect, at, state, who, why)
SELECT id, prepared, s.state, 'bench', '' FROM twice_effects, (SELECT 'pending' AS state UNION ALL SELECT 'sent') s
"""


def label_at(hour: int) -> str:
    return (DAY_ONE + timedelta(hours=hour)).strftime("%Y-%m-%dT%H")


def grow_old(ledger: Ledger, task: str, attempts: int, slices: int = SLICES) -> None:
    """So many attempts at the slices of one task, in turns: in one turn each is published, in the next found right.
    The number of turns is even."""
    assert attempts % (2 * slices) == 0, "each slice is published and found right equally often"
    dialect = ledger._engine.dialect.name
    with for_writing(ledger._engine).begin() as connection:
        ledger._own.register(connection, [task])
        if dialect == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("CREATE TEMPORARY TABLE bench_labels (number INTEGER PRIMARY KEY, label TEXT)"))
        labels = [{"number": number, "label": label_at(number)} for number in range(slices)]
        connection.execute(text("INSERT INTO bench_labels VALUES (:number, :label)"), labels)
        at = LONG_AGO if dialect == "postgresql" else LONG_AGO.isoformat(timespec="microseconds")
        given = {"task": ledger.owner.key(task), "at": at, "attempts": attempts, "slices": slices}
        given["publishes"] = attempts - 2 * slices
        _written(connection, (_ATTEMPTS, _SLICES, _INPUTS, _RUNS), given)
        _written(connection, (_EFFECTS, _EVENTS), given | {"attempts": attempts // EFFECTS})
        connection.execute(text("DROP TABLE bench_labels"))
        if dialect == "postgresql":
            # Fences and ids were given by hand.
            for table, column in (("twice_attempts", "fence"), ("twice_effects", "id")):
                sequence = f"pg_get_serial_sequence('{table}', '{column}')"
                connection.execute(text(f"SELECT setval({sequence}, (SELECT max({column}) FROM {table}))"))
    with ledger._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # As autovacuum does within a minute on a server that is left alone.
        connection.exec_driver_sql("VACUUM ANALYZE" if dialect == "postgresql" else "PRAGMA wal_checkpoint(TRUNCATE)")


def _written(connection: Connection, statements: Sequence[str], given: Mapping[str, object]) -> None:
    dialect = connection.dialect.name
    words = {"numbers": _NUMBERS, "id": _ID[dialect].format(x="x"), "no": "false" if dialect == "postgresql" else "0"}
    if dialect == "postgresql":
        words["numbers"] = "WITH n(x) AS (SELECT generate_series(1::bigint, :attempts))"
    for each in statements:
        statement = each.format(**words)
        connection.execute(text(statement), {name: each for name, each in given.items() if f":{name}" in statement})
