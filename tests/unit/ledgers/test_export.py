"""Everything the ledger knows, as plain data."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from twice.core.ledger.record import ClaimRequest, Facts
from twice.ledgers.database.schema import HEAD, metadata
from twice.ledgers.ledger import Ledger


def test_an_export_has_every_row_of_every_table_and_says_its_schema(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    for label in "ab":
        ledger.claim(ClaimRequest("t", [label], label, "run", "h"), timedelta(minutes=1))
    ledger.publish("a", Facts(notes=("ünï",)), generations={"a": 1})
    header, *rows = ledger.export()
    assert header == {"ledger": 1, "schema": HEAD}
    with ledger._engine.begin() as connection:
        counts = {
            table.name.removeprefix("twice_"): connection.execute(table.select()).fetchall()
            for table in metadata.sorted_tables
        }
    for name, expected in counts.items():
        assert [tuple(row.values())[1:] for row in rows if row["table"] == name] == [tuple(row) for row in expected]
    assert sum(row["table"] == "attempts" for row in rows) == 2
    ledger.close()
