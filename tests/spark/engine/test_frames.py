"""Cutting inputs, shaping results, finding duplicates."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession

from twice.core.local_day import turned_back
from twice.core.scope import Daily, Every, Hourly, Monthly, Scope, Whole, slice_column_of
from twice.engine.frames.frames import cut, duplicates, shape
from twice.errors import DeclarationError, ResultRefused


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


INSTANTS = """SELECT timestamp(at) AS at FROM VALUES
    ('2026-03-07T04:59:59.999999Z'), ('2026-03-08T04:59:59.999999Z'), ('2026-03-08T05:00:00Z'),
    ('2026-03-09T03:59:59.999999Z'), ('2026-03-09T04:00:00Z'), (NULL) AS t(at)"""


def test_a_timestamp_is_cut_half_open_by_instants(session: SparkSession) -> None:
    got = cut(session.sql(INSTANTS), "AT", instant("2026-03-08T05:00:00"), instant("2026-03-09T04:00:00"), None)
    assert got.count() == 2


def test_a_date_is_cut_to_the_local_days_of_the_slice(session: SparkSession) -> None:
    days = session.sql("SELECT explode(sequence(DATE '2026-03-01', DATE '2026-03-20')) AS day")
    start, end = instant("2026-03-08T05:00:00"), instant("2026-03-09T04:00:00")
    assert [row.day for row in cut(days, "day", start, end, "America/New_York").collect()] == [date(2026, 3, 8)]


def test_a_column_name_with_dots_and_backticks_is_cut(session: SparkSession) -> None:
    frame = session.sql("SELECT DATE '2026-01-01' AS `a.b``c`")
    assert cut(frame, "a.b`c", instant("2026-01-01"), instant("2026-01-02"), None).count() == 1


@pytest.mark.parametrize("type_", ["string", "timestamp_ntz", "int"])
def test_a_column_without_a_place_in_time_is_refused(session: SparkSession, type_: str) -> None:
    frame = session.sql(f"SELECT cast(NULL AS {type_}) AS at")
    with pytest.raises(DeclarationError, match=f"of type {type_}, which has no place in time"):
        cut(frame, "at", instant("2026-01-01"), instant("2026-01-02"), None)


SLICED = [
    (Daily("at", start="2026-01-01", zone="America/New_York"), "local_day", "date", "2026-03-08"),
    (Daily("at", start="2026-01-01", zone="Pacific/Auckland"), "local_day", "date", "2026-03-09"),
    (Monthly("at", start="2026-01", zone="Asia/Tokyo", slice_column="at_month"), "at_month", "date", "2026-03-01"),
    (Hourly("at", start="2026-01-01T00"), "at_hour", "timestamp", "2026-03-08 12:00:00"),
    (Every("at", start="2026-01-01T00:00", minutes=20), "window_start", "timestamp", "2026-03-08 12:40:00"),
]


@pytest.mark.parametrize(("scope", "name", "type_", "value"), SLICED, ids=[s[1] + s[3] for s in SLICED])
def test_a_derived_slice_column_is_added(session: SparkSession, scope: Any, name: str, type_: str, value: str) -> None:
    frame, note = shape(session.sql("SELECT TIMESTAMP '2026-03-08 12:59:59.999999Z' AS at"), slice_column_of(scope))
    assert note.partitioned_by == name
    assert [(c.name, c.type) for c in note.columns] == [("at", "timestamp"), (name, type_)]
    assert frame.selectExpr(f"cast({name} AS string)").collect()[0][0] == value


@pytest.mark.parametrize("zone", ["America/St_Johns", "Antarctica/Casey"])
def test_a_derived_day_is_that_of_the_slice_where_clocks_were_put_back_over_midnight(
    session: SparkSession, zone: str
) -> None:
    scope = Daily("at", start="1900-01-01", zone=zone)
    first, last, _ = turned_back(zone)[-1]
    near = [first + timedelta(minutes=minutes) for minutes in range(-5, 185)] + [last]
    values = ", ".join(f"(timestamp'{at.isoformat()}')" for at in near)
    shaped, _ = shape(session.sql(f"SELECT at FROM VALUES {values} AS t(at)"), scope.held_in)
    found = [str(row[0]) for row in shaped.orderBy("at").select("local_day").collect()]
    assert found == [scope.slice_at(at).label for at in sorted(near)]


def test_a_derived_value_is_the_low_bound_of_the_slice_that_the_scope_names(session: SparkSession) -> None:
    scope = Every("at", start="1960-01-01T00:00", minutes=15)
    frame, _ = shape(session.sql("SELECT TIMESTAMP '1969-12-31 23:59:00Z' AS at"), slice_column_of(scope))
    bounds = scope.slice_of("1969-12-31T23:45").bounds
    assert bounds is not None and isinstance(bounds.low, datetime)
    assert frame.selectExpr("unix_micros(window_start)").collect()[0][0] == int(bounds.low.timestamp() * 1_000_000)


def test_a_date_column_is_its_own_slice_column_under_the_declared_spelling(session: SparkSession) -> None:
    frame, note = shape(
        session.sql("SELECT DATE '2026-01-01' AS Order_Date"), Daily("order_date", start="2026-01-01").held_in
    )
    assert frame.columns == ["order_date"]
    assert note.partitioned_by == "order_date"


def test_a_slice_value_that_contradicts_its_row_belongs_to_no_slice(session: SparkSession) -> None:
    frame = session.sql(
        "SELECT id, TIMESTAMP '2026-03-08 02:00:00Z' AS at, d AS local_day"
        " FROM VALUES (1, DATE '2026-03-07'), (2, DATE '2026-03-08'), (3, NULL) AS t(id, d)"
    )
    shaped, _ = shape(frame, Daily("at", start="2026-01-01", zone="America/New_York").held_in)
    assert {row.id: row.local_day for row in shaped.collect()} == {1: date(2026, 3, 7), 2: None, 3: None}


REFUSED: list[tuple[str, Scope, str]] = [
    ("SELECT 1 AS a", Daily("day", start="2026-01-01"), "has no column 'day'"),
    ("SELECT '2026-01-01' AS day", Daily("day", start="2026-01-01"), "is string and must be date"),
    ("SELECT current_timestamp() AS day", Daily("day", start="2026-01-01"), "is timestamp and must be date"),
    ("SELECT DATE '2026-01-01' AS at", Hourly("at", start="2026-01-01T00"), "is date and must be timestamp"),
    ("SELECT 1 AS a, 2 AS A", Whole(), "more than one column named 'A'"),
    (
        "SELECT TIMESTAMP '2026-01-01 00:00:00Z' AS at, 'x' AS at_hour",
        Hourly("at", start="2026-01-01T00"),
        "'at_hour' is string",
    ),
]


@pytest.mark.parametrize(("query", "scope", "note"), REFUSED)
def test_a_result_that_does_not_fit_its_scope_is_refused(
    session: SparkSession, query: str, scope: Scope, note: str
) -> None:
    with pytest.raises(ResultRefused) as caught:
        shape(session.sql(query), slice_column_of(scope))
    assert note in str(caught.value)


def test_a_frame_of_another_session_is_refused_with_the_fix(spark: SparkSession) -> None:
    with pytest.raises(ResultRefused, match=r"another Spark session.*run\.spark"):
        shape(spark.range(1), None)


def test_a_result_that_is_no_frame_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ResultRefused, match="returned nothing"):
        shape(None, None)
    with pytest.raises(ResultRefused, match="returned a list, not a Spark DataFrame"):
        shape([1], None)


def test_a_stream_is_refused(session: SparkSession) -> None:
    stream = session.readStream.format("rate").load()
    with pytest.raises(ResultRefused, match="is a stream"):
        shape(stream, None)


def test_duplicates_are_rows_beyond_the_first_and_null_equals_null(session: SparkSession) -> None:
    frame = session.sql(
        "SELECT * FROM VALUES (1, 'a'), (1, 'a'), (1, 'a'), (1, NULL), (1, NULL), (2, 'a') AS t(a, `b.c`)"
    )
    assert duplicates(frame, ["a", "b.c"]) == 3
    assert duplicates(frame, ["A"]) == 4
    assert duplicates(session.range(100), ["id"]) == 0
    assert duplicates(session.range(0), ["id"]) == 0
    with pytest.raises(DeclarationError, match="There are: id"):
        duplicates(session.range(1), ["nope"])
