"""The engine without a JVM keeps the same contract, so what the runtime's tests show holds on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

import pytest

from twice.core import audit
from twice.core.audit import measures_of
from twice.core.ports import Column
from twice.core.scope import Daily, Hourly
from twice.core.slice import WHOLE
from twice.engine.plain import PlainEngine
from twice.errors import DeclarationError, ResultRefused

ENGINE = PlainEngine()


@dataclass(frozen=True)
class Rows:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


EVENTS = Rows(
    (Column("id", "int"), Column("at", "timestamp")),
    ((1, at("2026-01-01T10:15:00")), (2, at("2026-01-01T11:00:00")), (2, None)),
)


def test_an_interval_is_half_open_and_null_is_never_inside() -> None:
    assert ENGINE.cut(EVENTS, "at", at("2026-01-01T10:00:00"), at("2026-01-01T11:00:00"), None).rows == EVENTS.rows[:1]


def test_the_slice_column_is_derived() -> None:
    frame, shape = ENGINE.shape(EVENTS, Hourly("at", start="2026-01-01T00").held_in)
    assert shape.partitioned_by == "at_hour"
    assert [row[2] for row in frame.rows] == [at("2026-01-01T10:00:00"), at("2026-01-01T11:00:00"), None]


def test_a_given_slice_value_that_contradicts_its_row_belongs_to_no_slice() -> None:
    columns = (*EVENTS.columns, Column("local_day", "date"))
    stated = (date(2026, 1, 1), date(2026, 1, 2), None)
    frame = Rows(columns, tuple((*row, day) for row, day in zip(EVENTS.rows, stated, strict=True)))
    shaped, _ = ENGINE.shape(frame, Daily("at", start="2026-01-01", zone="UTC").held_in)
    assert [row[2] for row in shaped.rows] == [date(2026, 1, 1), None, None]


def test_wrong_results_are_refused_as_on_spark() -> None:
    with pytest.raises(ResultRefused, match="returned nothing"):
        ENGINE.shape(None, None)
    with pytest.raises(ResultRefused, match="has no column 'day'"):
        ENGINE.shape(EVENTS, Daily("day", start="2026-01-01").held_in)
    with pytest.raises(DeclarationError, match="There are: id, at"):
        ENGINE.cut(EVENTS, "nope", at("2026-01-01"), at("2026-01-02"), None)


def test_rows_are_counted_and_fingerprinted_whatever_their_order() -> None:
    turned = Rows(EVENTS.columns[::-1], tuple(row[::-1] for row in EVENTS.rows[::-1]))
    doubled = Rows(EVENTS.columns, EVENTS.rows + EVENTS.rows[:1])

    def seen(frame: Rows) -> Any:
        return ENGINE.observe(frame, (WHOLE,), measures_of([audit.not_null("at")])).read()["all"]

    assert seen(EVENTS) == seen(turned)
    assert seen(EVENTS).counts == {"not_null(at):at": 1}
    assert seen(EVENTS).fingerprint != seen(doubled).fingerprint


def test_duplicates_are_rows_beyond_the_first() -> None:
    assert ENGINE.duplicates(EVENTS, ["ID"]) == 1
    assert ENGINE.duplicates(EVENTS, ["id", "at"]) == 0
