"""The calendar of a task: every slice at its place, every state shown."""

from __future__ import annotations

from datetime import datetime, timezone

from twice.core.ledger.record import AttemptState, RunRecord
from twice.core.results.calendar import calendar
from twice.core.scope import Daily, Hourly, Monthly

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
