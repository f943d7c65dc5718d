"""The last look before a Delta commit: nothing outside the slices, nothing missing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from twice.core.scope import Daily
from twice.core.slice import WHOLE
from twice.errors import RowsOutsideSlice, StageLost, StageMismatch
from twice.targets.delta.log.condition import condition
from twice.targets.delta.write.manifest import (
    DataFile,
    SliceType,
    at_paths,
    check_whole,
    count,
    file_of,
    in_all,
    verify,
)

DAILY = Daily("d", start="2026-01-01")
SLICES = (DAILY.slice_of("2026-06-09"), DAILY.slice_of("2026-06-10"))
DATE = SliceType("date")
INSIDE = DataFile("a", "2026-06-09", 2)


def test_a_file_is_read_from_deltas_json() -> None:
    text = '{"add":{"path":"d=2026-06-09/x","partitionValues":{"d":"2026-06-09"},"stats":"{\\"numRecords\\":5}"}}'
    assert file_of(text, "d") == DataFile("d=2026-06-09/x", "2026-06-09", 5)
    assert file_of('{"add":{"path":"x","partitionValues":{"d":null},"size":7}}', "d") == DataFile("x", None, None, 7)


def test_a_staged_file_that_is_gone_or_was_cut_short_stops_the_commit() -> None:
    staged = [DataFile("d=1/a", "1", 2, 100), DataFile("d=1/b", "1", 2, 200)]
    check_whole(staged, {"d=1/a": 100, "d=1/b": 200, "d=1/of-another": 1})
    with pytest.raises(StageLost, match=r"1 of 2 staged files are gone, e\.g\. d=1/b.*VACUUM") as lost:
        check_whole(staged, {"d=1/a": 100})
    assert lost.value.now == "The table is unchanged."
    assert "Run the task again" in lost.value.fix
    with pytest.raises(StageLost, match="1 staged files were changed"):
        check_whole(staged, {"d=1/a": 100, "d=1/b": 40})


def test_rows_deleted_by_a_vector_do_not_count() -> None:
    text = '{"add":{"path":"x","stats":"{\\"numRecords\\":5}","deletionVector":{"cardinality":2}}}'
    assert file_of(text, None).rows == 3
    assert in_all([file_of(text, None), DataFile("y", None, 4)]) == 7
    with pytest.raises(StageMismatch, match="how many rows"):
        in_all([DataFile("a", None, None)])


@dataclass(frozen=True)
class Added:
    """As much of Delta's added file as is asked for."""

    name: str

    def path(self) -> str:
        return self.name


def test_files_are_found_by_the_places_a_scan_gives() -> None:
    files = [Added("d=2026-06-09/a.parquet"), Added("d=2026-06-10/a.parquet"), Added("h=13%253A00/b%20c.parquet")]
    places = ["file:/lake/t/d=2026-06-10/a.parquet", "file:///lake/t/h=13%253A00/b%20c.parquet"]
    assert at_paths(files, places) == files[1:]
    elsewhere = Added("file:/other/lake/a.parquet")
    assert at_paths([*files, elsewhere], ["file:/other/lake/a.parquet"]) == [elsewhere]
    assert at_paths(files, []) == []


def test_a_file_with_rows_to_change_that_is_not_in_the_log_stops_the_commit() -> None:
    with pytest.raises(StageMismatch, match="1 of the files"):
        at_paths([Added("d=2026-06-09/a.parquet")], ["file:/lake/t/d=2026-06-10/a.parquet"])


def test_rows_are_counted_by_slice() -> None:
    files = [INSIDE, DataFile("b", "2026-06-09", 3), DataFile("c", "2026-06-10", 1)]
    assert count(files, SLICES, DATE) == {"2026-06-09": 5, "2026-06-10": 1}


@pytest.mark.parametrize("value", ["2026-06-11", "2026-06-08", None, "", "__HIVE_DEFAULT_PARTITION__", "not a date"])
def test_a_staged_file_outside_the_slices_is_refused(value: str | None) -> None:
    with pytest.raises(RowsOutsideSlice):
        count([INSIDE, DataFile("b", value, 1)], SLICES, DATE)


def test_a_file_that_does_not_say_its_rows_is_refused() -> None:
    with pytest.raises(StageMismatch, match="how many rows"):
        count([DataFile("a", "2026-06-09", None)], SLICES, DATE)


@pytest.mark.parametrize("value", ["2026-06-11", None, "not a date"])
def test_a_commit_may_neither_add_nor_remove_a_file_of_another_slice(value: str | None) -> None:
    stray = DataFile("stray", value, 1)
    for added, removed in (([INSIDE, stray], []), ([INSIDE], [stray])):
        with pytest.raises(StageMismatch, match="outside 2026-06-09, 2026-06-10: stray"):
            verify(added, removed, SLICES, DATE, {"2026-06-09": 2, "2026-06-10": 0})


def test_a_commit_adds_exactly_the_rows_that_were_staged() -> None:
    verify([INSIDE], [], SLICES, DATE, {"2026-06-09": 2, "2026-06-10": 0})
    with pytest.raises(StageMismatch, match="do not hold the rows"):
        verify([INSIDE], [], SLICES, DATE, {"2026-06-09": 3, "2026-06-10": 0})
    with pytest.raises(StageMismatch, match="do not hold the rows"):
        verify([], [], SLICES, DATE, {"2026-06-09": 2, "2026-06-10": 0})


def test_a_whole_table_owns_every_file_and_a_slice_owns_none_without_a_slice_column() -> None:
    assert count([DataFile("a", None, 4)], [WHOLE], SliceType(None)) == {"all": 4}
    with pytest.raises(RowsOutsideSlice):
        count([INSIDE], [WHOLE], DATE)
    with pytest.raises(RowsOutsideSlice):
        count([DataFile("a", None, 4)], SLICES, SliceType(None))


def test_neighbouring_slices_become_one_range() -> None:
    assert condition(SLICES, "d") == "`d` IS NOT NULL AND ((`d` >= DATE '2026-06-09' AND `d` < DATE '2026-06-11'))"
    apart = (SLICES[0], DAILY.slice_of("2026-06-12"))
    assert str(condition(apart, "d")).count(" OR ") == 1


def test_the_condition_never_opens_up_to_every_row() -> None:
    for slices in ((), (WHOLE,), (SLICES[0], WHOLE)):
        with pytest.raises(ValueError, match="has bounds"):
            condition(slices, "d")


def test_a_column_name_is_quoted() -> None:
    assert str(condition(SLICES, "a.`b")).startswith("`a.``b` IS NOT NULL")
