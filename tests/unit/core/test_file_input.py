"""Which files a slice reads, and which declarations of files make no sense."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice import Daily, Every, Hourly, Monthly, Since, Whole, append_once, days, insert_new, read, replace, task
from twice.core.file_input import Files, dates_read, is_hidden, of_one_slice, part_of, pattern_of, reads_part
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError

DAILY = Daily("day", start="2020-01-01")
SCOPES: list[TimeScope] = [
    DAILY,
    Daily("at", start="2020-01-01", zone="America/New_York"),
    Daily("at", start="2020-01-01", zone="Pacific/Apia"),
    Monthly("day", start="2020-01"),
    Hourly("at", start="2020-01-01T00"),
    Every("at", start="2020-01-01T00:00", minutes=15),
]
INSTANTS = st.datetimes(datetime(2020, 1, 2), datetime(2035, 1, 1), timezones=st.just(timezone.utc))


def files(pattern: str, **more: Any) -> Files:
    return read.files(pattern, format="csv", **more)


@given(
    scope=st.sampled_from(SCOPES),
    pattern=st.sampled_from(["in/{ds}/*", "in/{label}.csv", "in/{start}", "in/{end}"]),
    first=INSTANTS,
    second=INSTANTS,
)
def test_two_slices_never_share_a_pattern(scope: TimeScope, pattern: str, first: datetime, second: datetime) -> None:
    source = files(pattern)
    slices = scope.slice_at(first), scope.slice_at(second)
    patterns = [pattern_of(source, scope, slice_) for slice_ in slices]
    assert of_one_slice(source, scope)
    assert (patterns[0] == patterns[1]) == (slices[0] == slices[1])


@given(scope=st.sampled_from(SCOPES), first=INSTANTS, second=INSTANTS)
def test_the_parts_of_a_start_name_the_slice(scope: TimeScope, first: datetime, second: datetime) -> None:
    parts = {"month": "", "day": "/{day}", "hour": "/{day}/{hour}", "window": "/{day}/{hour}/{minute}"}
    source = files("in/{year}/{month}" + parts[scope.held_in.grain])
    slices = scope.slice_at(first), scope.slice_at(second)
    patterns = [pattern_of(source, scope, slice_) for slice_ in slices]
    assert of_one_slice(source, scope)
    assert (patterns[0] == patterns[1]) == (slices[0] == slices[1])


@given(scope=st.sampled_from(SCOPES), first=INSTANTS)
def test_the_end_of_a_slice_is_the_start_of_the_next(scope: TimeScope, first: datetime) -> None:
    slice_ = scope.slice_at(first)
    following = scope.slice_at(slice_.end)
    assert pattern_of(files("{end}"), scope, slice_) == pattern_of(files("{start}"), scope, following)


def test_placeholders_are_written_as_people_write_dates() -> None:
    source = files("in/{ds}/{start}_{end}/{year}{month}{day}.csv")
    assert pattern_of(source, DAILY, DAILY.slice_of("2026-06-09")) == "in/2026-06-09/2026-06-09_2026-06-10/20260609.csv"
    month = Monthly("day", start="2026-01")
    assert pattern_of(files("{ds} {start} {end}"), month, month.slice_of("2026-12")) == "2026-12 2026-12-01 2027-01-01"
    hour = Hourly("at", start="2026-01-01T00")
    assert pattern_of(files("{start}/{hour}"), hour, hour.slice_of("2026-06-09T23")) == "2026-06-09T23/23"


def test_a_pattern_that_leaves_out_the_hour_is_of_no_one_hour() -> None:
    assert not of_one_slice(files("in/{year}/{month}/{day}"), SCOPES[4])
    assert not of_one_slice(files("in/*.csv"), DAILY)


def test_the_anchor_is_the_folder_above_all_slices() -> None:
    assert files("landing/{ds}/*.csv").anchor == "landing"
    assert files("a/b/c.csv").anchor == "a/b"
    assert files("*.csv").anchor == ""
    assert files("/data/*.csv").anchor == "/data"
    assert files("/*.csv").anchor == "/"


@given(day=st.dates(date(2020, 2, 1), date(2030, 1, 1)), before=st.integers(0, 40))
def test_a_file_below_a_date_is_read_by_the_slices_that_read_that_date(day: date, before: int) -> None:
    source = files("landing", by="dt", before=days(before))
    path = f"landing/dt={day.isoformat()}/part-0.csv"
    at = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    for ahead in (-1, 0, 1, before, before + 1):
        dates = dates_read(source, DAILY, DAILY.slice_at(at + timedelta(days=ahead)))
        assert dates is not None
        assert reads_part(path, "dt", dates) is (0 <= ahead <= before)


def test_a_folder_that_names_no_date_says_nothing() -> None:
    dates = (date(2026, 6, 9), date(2026, 6, 10))
    assert reads_part("landing/dt=__HIVE_DEFAULT_PARTITION__/a.csv", "dt", dates) is None
    assert reads_part("landing/region=eu/a.csv", "dt", dates) is None
    assert reads_part("landing/dt=2026-06-09.csv", "dt", dates) is None  # a file of that name is no folder
    assert part_of("landing/Dt=2026%2D06/a.csv", "dt") == "2026-06"
    assert (
        dates_read(
            files("landing", by="at"), SCOPES[4], SCOPES[4].slice_at(datetime(2026, 6, 9, 13, tzinfo=timezone.utc))
        )
        is None
    )


def test_what_spark_leaves_out_is_left_out() -> None:
    assert [name for name in ("_SUCCESS", ".a.crc", "a.csv._COPYING_", "a.csv", "_x=1") if not is_hidden(name)] == [
        "a.csv",
        "_x=1",
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"pattern": "s3://bucket/{ds}/*.csv"}, "s3: locations are not supported yet"),
    ({"pattern": ""}, "names no file"),
    ({"pattern": "landing/{day_of}/x"}, "there is no placeholder {day_of}. Known: {ds}, {label}, {start}"),
    ({"pattern": "landing/{ds/x"}, "a brace is not closed"),
    ({"pattern": "../landing/*.csv"}, ".. is not followed"),
    ({"pattern": "landing/_raw/*.csv"}, "Spark does not read what begins with _ or a dot, as _raw does"),
    ({"format": "excel"}, "format='excel' is not known. Known: csv, json, parquet, orc, text, xml."),
    ({"missing": "skip"}, "missing='skip' is not known"),
    ({"missing": "empty"}, 'missing="empty" needs schema='),
    ({"by": ""}, "the name of a column is empty"),
    ({"by": "d", "pattern": "landing/*.csv", "before": -days(1)}, "is negative"),
    ({"before": days(1), "pattern": "landing/*.csv"}, "before= needs by="),
    ({"before": days(1), "by": "d"}, "a pattern without a placeholder"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_a_declaration_that_makes_no_sense_is_refused_where_it_is_written(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        read.files(**{"pattern": "landing/{ds}/*.csv", "format": "csv", **given})
    assert said in str(refused.value)


def declare(scope: Any, write: Any = None, **inputs: Any) -> Any:
    def function(**given: Any) -> Any:
        return given

    return task("shop.t", scope=scope, inputs=inputs, write=write or replace(), name="t")(function)


def test_a_placeholder_with_several_values_in_one_slice_is_refused() -> None:
    with pytest.raises(
        DeclarationError, match=r"one slice of Monthly\(…\) has more than one day. Write \* in the place"
    ):
        declare(Monthly("day", start="2026-01"), orders=files("landing/{year}-{month}-{day}/*.csv"))
    with pytest.raises(DeclarationError, match="more than one hour"):
        declare(DAILY, orders=files("landing/{ds}/{hour}/*.csv"))


def test_several_slices_at_once_are_refused_where_each_has_its_own_files() -> None:
    batch = Daily("day", start="2026-01-01", batch=True)
    with pytest.raises(DeclarationError, match="a row in the file of another day would be published with its own day"):
        declare(batch, orders=files("landing/{ds}/*.csv"))
    assert declare(batch, orders=files("landing", by="dt")).files["orders"].by == "dt"


def test_a_scope_without_slices_of_time_has_no_placeholders() -> None:
    with pytest.raises(DeclarationError, match=r"has files by \{ds\}, and Whole\(…\) has no slice"):
        declare(Whole(), orders=files("landing/{ds}/*.csv"))
    with pytest.raises(DeclarationError, match=r"a Whole\(\) task has no slice to cut it to"):
        declare(Whole(), orders=files("landing", by="day"))
    assert declare(Whole(), orders=files("landing/*.csv")).files


def test_a_cursor_is_never_in_files() -> None:
    since = Since("id", initial=0)
    with pytest.raises(DeclarationError, match=r"goes on from a mark in a table.*Load the files into a table"):
        declare(since, insert_new("id"), orders=files("landing", by="id"))
    kept = declare(since, insert_new("id"), orders=read("shop.orders", by="id"), zones=files("zones.csv"))
    assert set(kept.files) == {"zones"}


def test_rows_without_a_key_need_files_of_their_own_for_each_slice() -> None:
    assert declare(DAILY, append_once(), orders=files("landing/{ds}/*.csv"))
    assert declare(DAILY, append_once(), orders=files("landing", by="dt"))
    with pytest.raises(DeclarationError, match="no input is cut to the slice"):
        declare(DAILY, append_once(), orders=files("landing/*.csv"))


def test_one_table_is_watched_or_not() -> None:
    with pytest.raises(DeclarationError, match="reads shop.zones, which another input reads with another watch="):
        declare(DAILY, a=read("shop.zones"), b=read("shop.zones", watch=False))
