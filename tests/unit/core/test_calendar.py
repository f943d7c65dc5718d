"""The calendar of a task: every slice at its place, every state shown."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from twice.core.ledger.record import AttemptState, RunRecord
from twice.core.results.calendar import calendar, scope_word, slice_states
from twice.core.scope import Daily, Every, Hourly, Monthly, Whole
from twice.core.since import Since
from twice.core.time_scope import TimeScope

S = AttemptState


def run(label: str, state: AttemptState = S.PUBLISHED, generation: int = 1, quarantined: bool = False) -> RunRecord:
    since = datetime(2026, 1, 1, tzinfo=timezone.utc) if quarantined else None
    return RunRecord(
        "revenue", label, generation, None, None, None, None, None, None, "a", state, quarantined=since, retry_at=None
    )


def test_days_stand_at_their_number_in_the_line_of_their_month() -> None:
    pages = calendar(Daily("d", start="2024-01-01"), [run("2024-02-28"), run("2024-03-02", S.FAILED, 0)])
    assert [(page.title, page.cells) for page in pages] == [
        ("2024-02", ("none",) * 27 + ("published", "missing")),
        ("2024-03", ("missing", "failed")),
    ]


def test_every_state_is_distinguished() -> None:
    runs = [
        run("2026-06-01"),
        run("2026-06-02", S.REJECTED),
        run("2026-06-03", S.FAILED, quarantined=True),
        run("2026-06-04", S.STAGED),
        run("2026-06-06", S.UNCHANGED),
    ]
    (page,) = calendar(Daily("d", start="2026-01-01"), runs)
    assert page.cells == ("published", "failed", "quarantined", "at work", "missing", "published")


def test_months_make_years_and_hours_make_days() -> None:
    (year,) = calendar(Monthly("d", start="2026-01"), [run("2026-02"), run("2026-04")])
    assert (year.title, year.cells) == ("2026", ("none", "published", "missing", "published"))
    hours = calendar(Hourly("at", start="2026-01-01T00"), [run("2026-06-09T23"), run("2026-06-10T01")])
    assert [(page.title, page.cells) for page in hours] == [
        ("2026-06-09", ("published",)),
        ("2026-06-10", ("missing", "published")),
    ]


def test_a_day_that_a_zone_skipped_leaves_its_place_empty() -> None:
    (page,) = calendar(Daily("at", start="2011-12-01", zone="Pacific/Apia"), [run("2011-12-28"), run("2011-12-31")])
    assert page.cells[27:] == ("published", "missing", "none", "published")


def test_a_published_slice_that_is_stale_is_distinguished_and_a_failed_one_stays_failed() -> None:
    runs = [run("2026-01-01"), run("2026-01-02", S.FAILED, 0), run("2026-01-03")]
    (page,) = calendar(Daily("d", start="2026-01-01"), runs, {"2026-01-01", "2026-01-02"})
    assert page.cells == ("stale", "failed", "published")


def test_what_nobody_is_at_work_on_is_not_shown_as_at_work() -> None:
    runs = [run("2026-06-01", S.STAGED), run("2026-06-02", S.CLAIMED, 0)]
    scope = Daily("d", start="2026-01-01")
    (page,) = calendar(scope, runs)
    assert page.cells == ("at work", "at work")
    (page,) = calendar(scope, runs, not_reporting={"a"})
    assert page.cells == ("published", "missing")


MAY = Daily("d", start="2026-05-30")


def test_slices_are_counted_from_the_start_of_the_scope_to_the_newest_published_one() -> None:
    runs = [
        run("2026-05-31"),
        run("2026-06-01", S.FAILED),
        run("2026-06-02", S.FAILED, 0),
        run("2026-06-03"),
        run("2026-06-04", S.STAGED, 0),
    ]
    found = slice_states(MAY, runs)
    assert (found.newest, found.published) == ("2026-06-03", 3)
    assert found.missing == ("2026-05-30",)
    assert (found.failed, found.running, found.silent) == (("2026-06-01", "2026-06-02"), ("2026-06-04",), ())


def test_what_an_input_has_and_the_task_has_not_is_missing() -> None:
    assert slice_states(MAY, [run("2026-05-30")], until="2026-06-01").missing == ("2026-05-31", "2026-06-01")
    assert slice_states(MAY, [], until="2026-05-31").missing == ("2026-05-30", "2026-05-31")
    assert slice_states(MAY, [run("2026-05-30")], until="2026-05-29").missing == ()


def test_nothing_is_missing_of_a_task_of_which_nothing_is_known() -> None:
    found = slice_states(MAY, [])
    assert (found.newest, found.published, found.missing) == (None, 0, ())


def test_a_slice_whose_process_is_gone_is_not_running() -> None:
    found = slice_states(MAY, [run("2026-05-30", S.STAGED, 0), run("2026-05-31")], {"a"})
    assert (found.running, found.silent) == ((), ("2026-05-30", "2026-05-31"))
    assert found.missing == ("2026-05-30",)


def test_slices_that_the_scope_has_no_more_do_not_count_but_their_failures_do() -> None:
    runs = [run("2026-06"), run("2026-05-29"), run("2026-07", S.FAILED, 0), run("2026-05-30")]
    found = slice_states(MAY, runs)
    assert (found.newest, found.published, found.missing, found.failed) == ("2026-05-30", 1, (), ("2026-07",))
    assert slice_states(None, runs).published == 3


def test_a_day_that_a_zone_skipped_is_not_missing() -> None:
    apia = Daily("at", start="2011-12-28", zone="Pacific/Apia")
    assert slice_states(apia, [run("2011-12-31")]).missing == ("2011-12-28", "2011-12-29")


@pytest.mark.parametrize(
    ("scope", "last"),
    [
        (Daily("d", start="2026-02-27"), "2026-03-02"),
        (Daily("at", start="2026-03-27", zone="Europe/Berlin"), "2026-03-31"),
        (Monthly("d", start="2025-11"), "2026-02"),
        (Hourly("at", start="2026-06-09T22"), "2026-06-10T02"),
        (Every("at", start="2026-06-09T23:30", minutes=15), "2026-06-10T00:15"),
    ],
    ids=["days", "days of a zone", "months", "hours", "windows"],
)
def test_labels_are_those_of_the_slices_from_the_first_one_on(scope: TimeScope, last: str) -> None:
    slices = scope.through(scope.first, scope.slice_of(last))
    assert list(scope.labels_through(last)) == [slice_.label for slice_ in slices]


def test_how_a_scope_cuts_is_a_word_or_two() -> None:
    scopes = (
        MAY,
        Monthly("d", start="2026-01"),
        Every("at", start="2026-06-09T00:00"),
        Whole(),
        Since("id", initial=0),
    )
    assert [scope_word(scope) for scope in scopes] == ["daily", "monthly", "every 15 min", "whole", "since"]
