"""A table's log read by Python alone: what it is sure to understand, and what it leaves to Delta. That its answers are
Delta's, every contract test asks (tests/contracts/delta_harness.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twice.core.ports import NeedsEngine
from twice.core.task import TableName
from twice.targets.delta.reader import DeltaReader

ORDERS = TableName("shop.orders")


@pytest.fixture
def folder(session: Any, tmp_path: Path) -> Path:
    """A table with two commits."""
    place = tmp_path / "shop" / "orders"
    for number in (1, 2):
        rows = session.createDataFrame([(number, "2026-06-09")], "number INT, day STRING")
        rows.coalesce(1).write.format("delta").mode("append").save(str(place))
    return place


def reader(folder: Path) -> DeltaReader:
    return DeltaReader(lambda _: str(folder))


def test_the_newest_commit_is_read(folder: Path) -> None:
    found = reader(folder).published(ORDERS, ["twice/shop/orders/2026-06-09"])
    assert (found.version, dict(found.generations)) == (1, {"twice/shop/orders/2026-06-09": 0})
    touched = reader(folder).touched(ORDERS, 0, None)
    assert touched is not None
    assert [each.version for each in touched.spans or ()] == [1]


def test_without_a_table_or_a_checksum_file_it_is_left_to_delta(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NeedsEngine):
        reader(tmp_path / "nothing").published(ORDERS, [])
    (folder / "_delta_log" / f"{1:020d}.crc").unlink()
    with pytest.raises(NeedsEngine):
        reader(folder).published(ORDERS, [])


def test_a_checksum_file_of_another_commit_is_not_believed(folder: Path) -> None:
    log = folder / "_delta_log"
    (log / f"{1:020d}.crc").write_bytes((log / f"{0:020d}.crc").read_bytes())
    with pytest.raises(NeedsEngine):
        reader(folder).published(ORDERS, [])


def test_a_feature_that_is_not_listed_is_left_to_delta(folder: Path) -> None:
    newest = folder / "_delta_log" / f"{1:020d}.crc"
    checksum = json.loads(newest.read_text())
    checksum["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["of the future"]}
    newest.write_text(json.dumps(checksum))
    with pytest.raises(NeedsEngine, match="of the future"):
        reader(folder).published(ORDERS, [])


def test_what_writes_or_reads_rows_is_left_to_delta(folder: Path) -> None:
    for name in ("prepare", "stage", "commit", "discard", "read"):
        with pytest.raises(NeedsEngine, match=name):
            getattr(reader(folder), name)
