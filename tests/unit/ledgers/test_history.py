"""What people ask often is one walk down an index, however long the history is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.dialects import sqlite

from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import metadata
from twice.ledgers.ledger import Ledger
from twice.ledgers.runs import history, run_records

OWN = OwnRows(RecordOwner("p", "dev", {"t": TaskTable("dev", "shop.t")}))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("chosen", "index"),
    [
        (history.named(OWN, "x"), "sqlite_autoindex_twice_attempts_1 (id=?)"),
        (history.still_open(OWN, None), "twice_attempts_open"),
        (history.with_leftovers(OWN, None), "twice_attempts_leftover"),
        (history.still_open(OWN, "t"), "twice_attempts_open_of_task (task=?)"),
        (history.with_leftovers(OWN, "t"), "twice_attempts_leftover_of_task (task=?)"),
        (history.newest(OWN, "t", None, 50), "twice_attempts_by_task (task=?)"),
        (history.newest(OWN, "t", "a", 50), "twice_slices_by_label (task=? AND label=?)"),
    ],
)
def test_attempts_are_found_by_an_index(ledger: Ledger, chosen: history.Chosen, index: str) -> None:
    text = chosen.rows.params(chosen.values).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    with ledger._engine.begin() as connection:
        plan = " / ".join(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}"))
    assert index in plan
    assert "TEMP B-TREE" not in plan


def test_a_status_walks_through_the_runs_of_its_own_environment_alone(ledger: Ledger) -> None:
    chosen = run_records._runs(OWN, None)
    text = chosen.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    with ledger._engine.begin() as connection:
        plan = " / ".join(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}"))
    assert "SEARCH twice_runs USING PRIMARY KEY (task=?)" in plan


def test_whoever_deletes_a_row_finds_by_an_index_that_no_other_refers_to_it() -> None:
    """Both databases look for each row that goes: without an index, through a whole table."""
    found = {
        f"{table.name}.{key.parent.name}": any(
            columns[:1] == [key.parent.name]
            for columns in (
                [column.name for column in table.primary_key.columns],
                *([column.name for column in index.columns] for index in table.indexes),
            )
        )
        for table in metadata.sorted_tables
        for key in table.foreign_keys
    }
    assert found["twice_runs.last_fence"] and all(found.values()), found
