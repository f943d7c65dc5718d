"""Which values a file of a Delta table may hold, by what its log says. No JVM."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from twice.core.ports import ChangedRange
from twice.targets.delta.log.changes import _Column


def stats(low: str, high: str) -> dict[str, Any]:
    return {"stats": f'{{"minValues": {{"at": "{low}"}}, "maxValues": {{"at": "{high}"}}}}'}


def test_a_file_shows_its_values_by_its_partition_or_its_statistics() -> None:
    day = date(2026, 6, 9)
    partition = _Column("at", "date", True).span(3, {"partitionValues": {"at": "2026-06-09"}})
    assert (
        partition
        == _Column("at", "date", False).span(3, stats("2026-06-09", "2026-06-09"))
        == ChangedRange(3, day, day)
    )


@pytest.mark.parametrize(
    ("type_", "partition", "file"),
    [
        ("date", True, {"partitionValues": {"at": "+12345-01-01"}}),
        ("date", False, stats("2026-06-09", "+12345-01-01")),
        ("timestamp", False, stats("2026-06-09T00:00:00.000Z", "9999-12-31T23:59:59.999Z")),
    ],
)
def test_a_value_that_python_has_no_date_for_is_any_value(type_: str, partition: bool, file: dict[str, Any]) -> None:
    assert _Column("at", type_, partition).span(3, file) == ChangedRange(3)
