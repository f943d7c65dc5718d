"""What others did to a table is reported: after a crash too, whatever the strategy, and when it is put right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from tests.runtime.conftest import DAY, REVENUE, RuntimeSetup, revenue_task
from tests.runtime.starting import start

from twice import Daily, Since, Whole, append_once, insert_new, merge, read, task
from twice.core.backfill.plan import BackfillRequest, StatusChoice
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column, Foreign
from twice.core.results.run import Outcome, RunRequest
from twice.core.slice import WHOLE
from twice.core.task import Strategy, TableName, Task
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.recover import recover
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

COPY = TableName("shop.copy")
COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("seq", "bigint"))
DAYS = [date(2026, 6, 9), date(2026, 6, 10)]
ROWS = Rows(COLUMNS, ((1, DAYS[0], 1), (2, DAYS[0], 2), (3, DAYS[1], 3)))


def deleted(target: MemoryTarget, table: TableName, where: Callable[[Any], bool]) -> None:
    """Somebody's DELETE: a version without these rows, and without a note of twice."""
    held = target._tables[table.name]
    latest = held.versions[-1]
    files = tuple(
        replace(file, name=f"{file.name}-theirs", rows=tuple(row for row in file.rows if not where(row)))
        if any(map(where, file.rows))
        else file
        for file in latest.files
    )
    held.versions.append(replace(latest, files=files, note=None))


def copy_task(runtime: RuntimeSetup, write: Strategy, scope: Any = None) -> Task:
    runtime.put(TableName("shop.changes"), ROWS)
    by = "day" if scope is None else scope.cursor
    declare = task(
        "shop.copy",
        scope=scope or Daily("day", start="2026-06-01"),
        inputs={"rows": read("shop.changes", by=by)},
        write=write,
        name="copy",
    )
    return runtime.declare(declare(lambda rows: rows))


@pytest.mark.parametrize("settle", ["run", "recover"])
def test_what_others_did_between_a_crash_and_the_rerun_is_reported(runtime: RuntimeSetup, settle: str) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        runtime.run(declared)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    runtime.clock.ahead += timedelta(hours=1)
    if settle == "recover":
        recover(runtime.context, None)
    result = runtime.run(declared)
    assert result.outcome is Outcome.ALREADY
    assert any("2026-06-09 was changed by others in version 2 (WRITE)" in note for note in result.notes)
    run = runtime.ledger.run("revenue", "2026-06-09")
    assert run is not None
    assert run.version == 1


def test_a_ledger_that_missed_the_publish_records_the_version_of_the_commit(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=fresh)
    assert any("changed by others in version 2" in note for note in runtime.run(declared).notes)
    fresh.close()


def test_after_an_older_copy_is_put_back_the_ledger_knows_its_publish_again_and_what_others_do_is_reported(
    runtime: RuntimeSetup,
) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    first = runtime.ledger.run("revenue", "2026-06-09")
    runtime.put_orders((1, DAY, 10), (2, DAY, 6))
    runtime.run(declared)
    held = runtime.target._tables[REVENUE.name]
    held.versions = held.versions[:2]
    runtime.put_orders((1, DAY, 10), (2, DAY, 5))
    assert "replaced by an older copy" in runtime.run(declared).notes[0]
    again = runtime.ledger.run("revenue", "2026-06-09")
    assert first is not None
    assert again is not None
    assert (again.generation, again.attempt, again.version) == (1, first.attempt, 1)
    assert (again.rows, again.fingerprint) == (first.rows, first.fingerprint)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    assert "2026-06-09 was changed by others in version 2" in runtime.run(declared).notes[0]


def test_after_a_reset_that_died_the_ledger_knows_the_mark_and_what_others_do_is_reported(
    runtime: RuntimeSetup,
) -> None:
    since = Since("seq", initial=0)
    declared = copy_task(runtime, append_once(), since)
    run_task(runtime.context, declared, (since.only,))
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        reset_mark(runtime.context, declared, Reset("2", "ada", "why"))
    runtime.clock.ahead += timedelta(hours=1)
    reset_mark(runtime.context, declared, Reset("2", "ada", "it is there already"))
    run = runtime.ledger.run("copy", "since")
    assert run is not None
    assert (run.generation, run.version) == (show_mark(runtime.context, declared).version, 2)
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    assert "in version 3 (WRITE)" in run_task(runtime.context, declared, (since.only,)).notes[0]


@pytest.mark.parametrize("write", [merge("id", newest_by="seq"), insert_new("id")], ids=lambda write: write.name)
def test_a_keyed_task_says_what_others_did_to_its_table(runtime: RuntimeSetup, write: Strategy) -> None:
    declared = copy_task(runtime, write)
    runtime.run(declared)
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    fresh, known = runtime.run(declared, "2026-06-10"), runtime.run(declared)
    remedy = "deleted rows come back when the slices that wrote them are restated: twice restate copy --date DATE"
    assert fresh.notes == (
        f"the table was changed by others since this task last published, in version 2 (WRITE); {remedy}",
    )
    assert known.notes == (
        f"the table was changed by others since 2026-06-09 was published, in version 2 (WRITE); {remedy}",
    )
    assert runtime.run(declared, "2026-06-10").notes == ()
    runtime.run(declared, kind="restate")
    assert runtime.run(declared).notes == ()
    assert [row[0] for row in sorted(runtime.target.read(COPY).rows)] == [1, 2, 3]


@pytest.mark.parametrize("write", [merge("id", newest_by="seq"), insert_new("id")], ids=lambda write: write.name)
def test_a_restated_keyed_slice_says_what_it_brought_again_and_gives_no_advice(
    runtime: RuntimeSetup, write: Strategy
) -> None:
    declared = copy_task(runtime, write)
    runtime.run(declared)
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    result = runtime.run(declared, kind="restate")
    assert result.outcome is Outcome.CHANGED
    assert result.notes == (
        "the table was changed by others since 2026-06-09 was published, in version 2 (WRITE); this run has written "
        f"the rows of 2026-06-09 again with {write.name}(); rows of other slices are as others left them",
    )
    kept = runtime.ledger.attempt(result.attempt)
    assert kept is not None
    assert kept.notes == result.notes


def test_a_keyed_task_without_dates_is_restated_without_a_date(runtime: RuntimeSetup) -> None:
    runtime.put(TableName("shop.changes"), ROWS)
    declare = task("shop.copy", scope=Whole(), inputs={"rows": read("shop.changes")}, write=merge("id"), name="copy")
    declared = runtime.declare(declare(lambda rows: rows))
    run_task(runtime.context, declared, (WHOLE,))
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    left = run_task(runtime.context, declared, (WHOLE,))
    assert left.notes[0].endswith("; to put rows back: twice restate copy")
    restated = run_task(runtime.context, declared, (WHOLE,), RunRequest("restate"))
    assert restated.notes[0].endswith("; this run has written the rows of all again with merge()")


def test_append_once_says_that_it_puts_nothing_back(runtime: RuntimeSetup) -> None:
    declared = copy_task(runtime, append_once())
    runtime.run(declared)
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    assert "append_once() puts no deleted row back" in runtime.run(declared).notes[0]


@pytest.mark.parametrize("write", [merge("id", newest_by="seq"), append_once()], ids=lambda write: write.name)
def test_an_incremental_task_says_it_also_where_nothing_is_new(runtime: RuntimeSetup, write: Strategy) -> None:
    since = Since("seq", initial=0)
    declared = copy_task(runtime, write, since)
    run_task(runtime.context, declared, (since.only,))
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    result = run_task(runtime.context, declared, (since.only,))
    assert result.outcome is Outcome.NOTHING_NEW
    assert "in version 2 (WRITE); deleted rows are read again only if you set the mark back" in result.notes[0]


def test_a_restatement_that_puts_deleted_rows_back_has_changed_the_table(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    result = runtime.run(declared, kind="restate")
    assert (result.outcome, result.slices[0].changed) == (Outcome.CHANGED, True)
    assert result.notes == ("2026-06-09 was changed by others in version 2 (WRITE); this run has corrected it",)
    again = runtime.run(declared, kind="restate")
    assert (again.outcome, again.slices[0].changed, again.notes) == (Outcome.IDENTICAL, False, ())


def test_a_run_that_publishes_a_slice_again_says_that_it_put_right_what_others_did(runtime: RuntimeSetup) -> None:
    """Its inputs changed, too."""
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    runtime.put_orders((1, DAY, 11))
    result = runtime.run(declared)
    assert (result.outcome, runtime.revenue) == (Outcome.PUBLISHED, [(DAY, 11)])
    assert result.notes == ("2026-06-09 was changed by others in version 2 (WRITE); this run has corrected it",)


def forgetful(monkeypatch: pytest.MonkeyPatch, target: MemoryTarget) -> None:
    """As a table whose log was cleaned up."""
    monkeypatch.setattr(target, "foreign", lambda *_: (Foreign(2, "forgotten", forgotten=True),))


def test_a_restatement_is_not_called_identical_where_the_log_forgot_what_others_did(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    forgetful(monkeypatch, runtime.target)
    result = runtime.run(declared, kind="restate")
    assert (result.outcome, result.slices[0].changed) == (Outcome.PUBLISHED, None)
    assert result.notes == (
        "there is no record of what 2026-06-09 held: it cannot be compared",
        "what others did to 2026-06-09 up to version 2 is no longer in the table's log; this run has replaced its rows",
    )


def test_a_restated_merge_has_counted_its_rows_whatever_the_log_forgot(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seq"))
    runtime.run(declared)
    forgetful(monkeypatch, runtime.target)
    result = runtime.run(declared, kind="restate")
    assert (result.outcome, result.slices[0].changed) == (Outcome.IDENTICAL, False)


def test_a_backfill_compares_nothing_where_the_log_forgot_what_others_did(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    forgetful(monkeypatch, runtime.target)
    only: tuple[StatusChoice, ...] = ("missing", "failed", "stale", "published")
    record, _ = start(runtime.context, BackfillRequest("revenue", "2026-06-09", "2026-06-09", only, restate=True))
    events: list[Event] = []
    work(runtime.context, record.name, events.append, Stop.never())
    assert events[0].ends[0].comparison is None


@pytest.mark.parametrize("write", [merge("id", newest_by="seq"), insert_new("id")], ids=lambda write: write.name)
def test_a_restated_merge_is_identical_only_if_no_row_changed(runtime: RuntimeSetup, write: Strategy) -> None:
    declared = copy_task(runtime, write)
    runtime.run(declared)
    deleted(runtime.target, COPY, lambda row: row[0] == 1)
    assert runtime.run(declared, kind="restate").outcome is Outcome.CHANGED
    assert runtime.run(declared, kind="restate").outcome is Outcome.IDENTICAL


def test_a_backfill_that_puts_deleted_rows_back_does_not_call_them_identical(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    deleted(runtime.target, REVENUE, lambda row: row[0] == DAY)
    only: tuple[StatusChoice, ...] = ("missing", "failed", "stale", "published")
    record, _ = start(runtime.context, BackfillRequest("revenue", "2026-06-09", "2026-06-09", only, restate=True))
    events: list[Event] = []
    work(runtime.context, record.name, events.append, Stop.never())
    comparison = events[0].ends[0].comparison
    assert comparison is not None
    assert not comparison.identical
    assert str(comparison) == "CHANGED: 1 row"  # how many were there before, the ledger does not know
