"""What a batch's keys cannot meet need not be read."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from twice.targets.delta.log.key_range import KeyRange, key_range_of


def file(low: Any, high: Any, column: str = "id") -> dict[str, Any]:
    return {"stats": json.dumps({"numRecords": 1, "minValues": {column: low}, "maxValues": {column: high}})}


def test_the_key_range_of_a_batch_is_that_of_all_its_files() -> None:
    assert key_range_of([file(5, 9), file(-2, 6)], "id", "bigint") == KeyRange("id", -2, 9)
    days = [file("2026-06-09", "2026-06-10"), file("2026-05-31", "2026-06-09")]
    assert key_range_of(days, "id", "date") == KeyRange("id", date(2026, 5, 31), date(2026, 6, 10))


@pytest.mark.parametrize("unknown", [{}, {"stats": None}, {"stats": "{}"}, file(None, None), file(1, 2, "other")])
def test_a_file_that_does_not_say_leaves_the_reach_unknown(unknown: dict[str, Any]) -> None:
    assert key_range_of([file(1, 2), unknown], "id", "int") is None
    assert not KeyRange("id", 5, 6).misses(unknown)


@pytest.mark.parametrize("type_", ["string", "timestamp", "double", "decimal(12,2)"])
def test_types_whose_statistics_are_not_exact_have_no_reach(type_: str) -> None:
    assert key_range_of([file(1, 2)], "id", type_) is None


def test_no_files_have_no_reach() -> None:
    assert key_range_of([], "id", "int") is None


@pytest.mark.parametrize(("low", "high", "missed"), [(1, 4, True), (10, 12, True), (1, 5, False), (9, 9, False)])
def test_a_file_beside_the_reach_is_missed(low: int, high: int, missed: bool) -> None:
    assert KeyRange("id", 5, 9).misses(file(low, high)) is missed


def test_the_condition_names_the_column_whatever_its_name() -> None:
    assert KeyRange("a.b", 5, 9).condition == "`a.b` BETWEEN 5 AND 9"
    assert KeyRange("d", date(2026, 6, 9), date(2026, 6, 10)).condition == (
        "`d` BETWEEN DATE '2026-06-09' AND DATE '2026-06-10'"
    )
