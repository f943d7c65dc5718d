"""An incremental task: the mark moves with the data, whatever dies, whatever arrives late."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from sqlite3 import connect
from typing import Any

import pytest
from tests.endings import Ending, end_at
from tests.runtime.conftest import RuntimeSetup

from twice import Since, append_once, call, insert_new, merge, read, task
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts
from twice.core.ports import Column, Shape
from twice.core.results.run import Outcome, RunRequest, RunResult
from twice.core.since import Window
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote
from twice.core.task import Strategy, TableName, Task
from twice.core.write import AppendRows, Layout, ReplaceRows, WritePlan
from twice.errors import DeclarationError, StageLost, Superseded, UsageError
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_many import run_slices
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.check import check
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender
from twice.targets.memory.rows import Rows

CHANGES = TableName("shop.changes")
COPY = TableName("shop.copy")
COLUMNS = (Column("id", "bigint"), Column("seen", "timestamp"), Column("amount", "bigint"))
KEYED: list[Strategy] = [merge("id", newest_by="seen"), insert_new("id")]
EVERY: list[Strategy] = [*KEYED, append_once()]
Change = tuple[int, datetime | None, int]


def at(minute: int) -> datetime:
    return datetime(2026, 6, 9, 0, minute, tzinfo=timezone.utc)


@dataclass
class Source:
    """A table that other people write."""

    runtime: RuntimeSetup
    rows: tuple[Change, ...] = ()

    def add(self, *rows: Change) -> None:
        self.rows += rows
        target = self.runtime.target
        into = target.prepare(CHANGES, Shape(COLUMNS), Layout(), False)
        expected = target.published(CHANGES, ["other"]).generations
        staged = target.stage(
            CHANGES,
            Rows(COLUMNS, self.rows),
            WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), ("other",)),
            f"o{len(self.rows)}",
            into=into,
        )
        target.commit(staged, expected, CommitNote("other", "run", {"other": expected["other"] + 1}))


@pytest.fixture
def source(runtime: RuntimeSetup) -> Source:
    source = Source(runtime)
    source.add((1, at(1), 10), (2, at(2), 20))
    return source


def copy_task(
    runtime: RuntimeSetup, write: Strategy, lag: timedelta | int = 0, initial: str | int = "2026-06-09T00:00:00Z"
) -> Task:
    scope = Since("seen", initial=initial, lag=lag)
    declare = task("shop.copy", scope=scope, inputs={"rows": read("shop.changes", by="seen")}, write=write, name="copy")
    return runtime.declare(declare(lambda rows: rows))


def run(runtime: RuntimeSetup, declared: Task) -> RunResult:
    return run_task(runtime.context, declared, (Since("seen", initial=0).only,))


def copied(runtime: RuntimeSetup) -> list[Any]:
    return sorted(runtime.target.read(COPY).rows)


def reason_of(runtime: RuntimeSetup, declared: Task) -> str | None:
    return show_mark(runtime.context, declared).at


@pytest.mark.parametrize("write", KEYED, ids=lambda write: write.name)
def test_a_keyed_run_reads_up_to_the_newest_row_and_moves_the_mark_there(
    runtime: RuntimeSetup, source: Source, write: Strategy
) -> None:
    declared = copy_task(runtime, write)
    result = run(runtime, declared)
    assert (result.outcome, result.mark) == (Outcome.PUBLISHED, "2026-06-09T00:02:00Z")
    assert copied(runtime) == [(1, at(1), 10), (2, at(2), 20)]
    assert reason_of(runtime, declared) == "2026-06-09T00:02:00Z"


def test_append_once_leaves_the_newest_stamp_to_the_next_run(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, append_once())
    run(runtime, declared)
    assert copied(runtime) == [(1, at(1), 10)]
    source.add((3, at(2), 30), (4, at(3), 40))
    run(runtime, declared)
    assert copied(runtime) == [(1, at(1), 10), (2, at(2), 20), (3, at(2), 30)]


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_a_second_run_finds_nothing_new_and_commits_nothing(
    runtime: RuntimeSetup, source: Source, write: Strategy
) -> None:
    declared = copy_task(runtime, write)
    run(runtime, declared)
    version = runtime.target.published(COPY, ()).version
    again = run(runtime, declared)
    assert again.outcome is Outcome.NOTHING_NEW
    assert again.mark == "2026-06-09T00:02:00Z"
    assert runtime.target.published(COPY, ()).version == version


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_a_row_that_arrives_later_with_the_marks_own_stamp_is_not_lost(
    runtime: RuntimeSetup, source: Source, write: Strategy
) -> None:
    declared = copy_task(runtime, write)
    run(runtime, declared)
    source.add((3, at(2), 30))
    run(runtime, declared)
    source.add((4, at(3), 40))
    run(runtime, declared)
    source.add((5, at(4), 50))
    run(runtime, declared)
    assert {row[0] for row in copied(runtime)} >= {1, 2, 3, 4}
    assert len(copied(runtime)) == len({row[0] for row in copied(runtime)})


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
@pytest.mark.parametrize("point", list(Point), ids=lambda point: point.value)
def test_a_crash_anywhere_loses_no_row_and_doubles_none(
    runtime: RuntimeSetup, source: Source, write: Strategy, point: Point
) -> None:
    declared = copy_task(runtime, write)
    with pytest.raises(Crash), armed(crash_at(point)):
        run(runtime, declared)
    source.add((3, at(3), 30))
    runtime.clock.ahead += timedelta(hours=1)
    run_slices(runtime.context, declared, (Since("seen", initial=0).only,))
    source.add((4, at(4), 40))
    run(runtime, declared)
    recover(runtime.context, None)
    expected = [(1, at(1), 10), (2, at(2), 20), (3, at(3), 30), (4, at(4), 40)]
    assert copied(runtime) == (expected[:-1] if write.name == "append_once" else expected)
    assert reason_of(runtime, declared) == "2026-06-09T00:04:00Z"
    assert not runtime.ledger.open_attempts()


def test_an_attempt_that_died_after_its_commit_is_recorded_as_published_with_its_mark(
    runtime: RuntimeSetup, source: Source
) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        run(runtime, declared)
    runtime.clock.ahead += timedelta(hours=1)
    assert run(runtime, declared).notes[0].endswith("had published without reporting back; it is recorded now")
    assert runtime.ledger.attempts("copy")[-1].state is AttemptState.PUBLISHED


def test_a_retry_keeps_the_bound_of_the_attempt_that_failed_and_then_goes_on(
    runtime: RuntimeSetup, source: Source
) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMPUTE)):
        run(runtime, declared)
    source.add((3, at(3), 30))
    runtime.clock.ahead += timedelta(hours=1)
    first, second = run_slices(runtime.context, declared, (Since("seen", initial=0).only,))
    assert (first.mark, second.mark) == ("2026-06-09T00:02:00Z", "2026-06-09T00:03:00Z")


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
@pytest.mark.parametrize("initial", ["2026-06-09T00:02:00Z", "2026-06-09T00:10:00Z"])
def test_an_initial_set_beyond_the_bound_of_a_first_run_that_failed_reads_the_rows_from_there(
    runtime: RuntimeSetup, source: Source, write: Strategy, initial: str
) -> None:
    end_at(Point.AFTER_STAGE, Ending.ERROR, lambda: run(runtime, copy_task(runtime, write)))
    source.add((3, at(30), 30), (4, at(40), 40))
    changed = copy_task(runtime, write, initial=initial)
    results = run_slices(runtime.context, changed, (Since("seen", initial=0).only,))
    assert {result.outcome for result in results} == {Outcome.PUBLISHED}
    assert results[-1].mark == "2026-06-09T00:40:00Z"
    newest = 3 if write.name == "append_once" else 4
    assert [row[0] for row in copied(runtime)] == list(range(2 if initial < "2026-06-09T00:10" else 3, newest + 1))


def test_a_lag_keeps_the_bound_behind_the_newest_row_so_that_late_commits_are_read(
    runtime: RuntimeSetup, source: Source
) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"), lag=timedelta(minutes=2))
    source.add((5, at(5), 50))
    assert run(runtime, declared).mark == "2026-06-09T00:03:00Z"
    source.add((4, at(4), 40), (6, at(6), 60))
    run(runtime, declared)
    assert [row[0] for row in copied(runtime)] == [1, 2, 4]


def test_rows_without_a_cursor_are_reported_since_they_are_never_read(runtime: RuntimeSetup, source: Source) -> None:
    source.add((9, None, 90))
    assert run(runtime, copy_task(runtime, merge("id", newest_by="seen"))).notes == (
        "not read, because seen is NULL: 1 row of rows",
    )


def test_rows_before_the_initial_mark_are_not_read(runtime: RuntimeSetup, source: Source) -> None:
    source.add((0, datetime(2026, 6, 8, tzinfo=timezone.utc), 1))
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    assert [row[0] for row in copied(runtime)] == [1, 2]


def test_restating_an_incremental_task_names_mark_reset(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    with pytest.raises(UsageError, match="twice mark reset copy"):
        run_task(runtime.context, declared, (Since("seen", initial=0).only,), RunRequest("restate"))


def test_two_runs_at_once_move_the_mark_once(runtime: RuntimeSetup, source: Source) -> None:
    """The second begins while the first has staged: the first to commit wins, the other sees its own work done."""
    declared = copy_task(runtime, append_once())
    inner: list[RunResult] = []

    def intrude(point: Point | SendPoint) -> None:
        if point is Point.PUBLISHING and not inner:
            runtime.clock.ahead += timedelta(hours=1)  # the first one's lease has run out
            inner.append(None)  # type: ignore[arg-type]
            inner[0] = run(runtime, declared)

    with armed(intrude):
        outer = run(runtime, declared)
    assert (inner[0].outcome, outer.outcome) == (Outcome.PUBLISHED, Outcome.ALREADY)
    assert copied(runtime) == [(1, at(1), 10)]


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_a_run_that_loses_to_a_reset_is_superseded_and_the_next_one_goes_on_from_the_mark(
    runtime: RuntimeSetup, source: Source, write: Strategy
) -> None:
    declared = copy_task(runtime, write)
    run(runtime, declared)
    before = copied(runtime)
    source.add((3, at(3), 30))
    resets: list[Any] = []

    def intrude(point: Any) -> None:
        if point is Point.PUBLISHING and not resets:
            runtime.clock.ahead += timedelta(hours=1)  # the run's lease has run out
            resets.append(None)
            reset_mark(runtime.context, declared, Reset("2026-06-09T00:01:00Z", "ada", "why"))

    with armed(intrude), pytest.raises(Superseded) as lost:
        run(runtime, declared)
    reset, tried = runtime.ledger.attempts("copy")[:2]
    assert str(lost.value) == (
        f"copy[since]: the mark was reset meanwhile (attempt {reset.id[:8]}). "
        "None of this run's rows are in the table. Run it again: it continues from where the mark is now."
    )
    assert (tried.state, tried.notes) == (AttemptState.SUPERSEDED, ("the mark was reset meanwhile",))
    assert copied(runtime) == before
    assert reason_of(runtime, declared) == "2026-06-09T00:01:00Z"
    assert run(runtime, declared).mark == "2026-06-09T00:03:00Z"


@pytest.mark.parametrize("back_by", ["a run", "a second reset"])
def test_a_run_that_began_before_a_reset_lands_nothing_where_the_mark_came_back(
    runtime: RuntimeSetup, source: Source, back_by: str
) -> None:
    """It read the row that the source had wrong: landed late, it would move the mark past the repaired one."""
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    source.add((3, at(3), 30))
    run(runtime, declared)
    source.add((4, at(4), 444))
    marks: list[str | None] = []

    def intrude(point: Any) -> None:
        if point is Point.PUBLISHING and not marks:
            runtime.clock.ahead += timedelta(hours=1)  # the run's lease has run out
            marks.append(reason_of(runtime, declared))
            source.rows = source.rows[:-1]
            source.add((4, at(4), 40), (5, at(5), 50))
            reset_mark(runtime.context, declared, Reset("2026-06-09T00:02:00Z", "ada", "the source was repaired"))
            if back_by == "a run":
                run(runtime, declared)
            else:
                reset_mark(runtime.context, declared, Reset("2026-06-09T00:03:00Z", "ada", "it was right before"))
            marks.append(reason_of(runtime, declared))

    with armed(intrude), suppress(StageLost):
        run(runtime, declared)
    assert marks == ["2026-06-09T00:03:00Z"] * 2, "the mark is where the slow run expects it"
    while run(runtime, declared).outcome is Outcome.PUBLISHED:
        pass
    assert copied(runtime) == sorted(source.rows)
    assert not runtime.ledger.undiscarded("copy")


def test_what_a_dead_run_has_staged_goes_once_the_mark_is_set_back(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    source.add((3, at(3), 30))
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_STAGE)):
        run(runtime, declared)
    runtime.clock.ahead += timedelta(hours=1)
    recover(runtime.context, None)
    source.rows = ((1, at(1), 11),)
    source.add()
    reset_mark(runtime.context, declared, Reset(None, "ada", "the source is another one"))
    assert [found.fix for found in check(runtime.context, None)] == ["twice gc"]
    run(runtime, declared)
    assert check(runtime.context, None) == ()


def test_a_reset_mark_reads_the_rows_again_and_the_key_makes_that_harmless(
    runtime: RuntimeSetup, source: Source
) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    before, after = reset_mark(runtime.context, declared, Reset(None, "ada", "the source was corrected"))
    assert (before.at, after.at) == ("2026-06-09T00:02:00Z", "2026-06-09T00:00:00Z")
    result = run(runtime, declared)
    assert (result.mark, result.changes and result.changes.unchanged) == ("2026-06-09T00:02:00Z", 2)


@pytest.mark.parametrize(("again", "more"), [("on_restate", 0), ("when_changed", 1)])
def test_other_rows_up_to_a_mark_that_was_announced_are_announced_only_where_the_effect_asks_for_changes(
    runtime: RuntimeSetup, source: Source, again: Any, more: int
) -> None:
    announced: list[int] = []
    announce = call(lambda result, key: announced.append(result.generation), keyed=False, name="announce", again=again)
    declared = runtime.declare(replace(copy_task(runtime, merge("id", newest_by="seen")), effects=(announce,)))
    runtime.context = replace(runtime.context, senders={"call": CallSender()})
    run(runtime, declared)
    reset_mark(runtime.context, declared, Reset(None, "ada", "the source was corrected"))
    source.rows = ((1, at(1), 11), (2, at(2), 22))
    source.add()
    (end,) = run(runtime, declared).effects
    assert len(announced) == 1 + more and end.already is not bool(more)


def test_a_reset_is_kept_with_who_and_why(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    reset_mark(runtime.context, declared, Reset("2026-06-09T00:01:00Z", "ada", "the source was corrected"))
    newest = runtime.ledger.attempts("copy")[0]
    assert (newest.kind, newest.state) == ("reset", AttemptState.PUBLISHED)
    assert newest.notes == (
        "mark reset from 2026-06-09T00:02:00Z to 2026-06-09T00:01:00Z by ada: the source was corrected",
    )


@pytest.mark.parametrize("point", [Point.PUBLISHING, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, Point.AFTER_PUBLISH])
def test_a_reset_that_dies_has_moved_the_mark_or_not_and_the_next_run_converges(
    runtime: RuntimeSetup, source: Source, point: Point
) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    with pytest.raises(Crash), armed(crash_at(point)):
        reset_mark(runtime.context, declared, Reset(None, "ada", "why"))
    moved = point in (Point.AFTER_COMMIT, Point.AFTER_PUBLISH)
    assert reason_of(runtime, declared) == ("2026-06-09T00:00:00Z" if moved else "2026-06-09T00:02:00Z")
    runtime.clock.ahead += timedelta(hours=1)
    result = run(runtime, declared)
    assert result.outcome is (Outcome.PUBLISHED if moved else Outcome.NOTHING_NEW)
    assert reason_of(runtime, declared) == "2026-06-09T00:02:00Z"
    recover(runtime.context, None)
    assert not runtime.ledger.open_attempts()
    died = next(attempt for attempt in runtime.ledger.attempts("copy") if attempt.kind == "reset")
    assert (died.state is AttemptState.PUBLISHED) == moved


def test_a_mark_before_the_initial_one_is_refused(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    with pytest.raises(UsageError, match="before initial"):
        reset_mark(runtime.context, declared, Reset("2026-06-08T00:00:00Z", "ada", "why"))


def test_a_mark_that_is_no_mark_is_refused(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    run(runtime, declared)
    with pytest.raises(UsageError, match="is not a mark of this task"):
        reset_mark(runtime.context, declared, Reset("yesterday", "ada", "why"))


def test_before_the_first_publish_there_is_no_mark_to_reset(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    assert reason_of(runtime, declared) is None
    with pytest.raises(UsageError, match="nothing is published yet"):
        reset_mark(runtime.context, declared, Reset(None, "ada", "why"))


@pytest.mark.parametrize(
    ("initial", "first", "second"), [(0, 5, 7), ("2026-01-01", date(2026, 2, 1), date(2026, 3, 1))]
)
def test_numbers_and_dates_are_marks_too(runtime: RuntimeSetup, initial: Any, first: Any, second: Any) -> None:
    kind = "bigint" if isinstance(initial, int) else "date"
    columns = (Column("id", "bigint"), Column("seq", kind))
    target = runtime.target
    into = target.prepare(CHANGES, Shape(columns), Layout(), False)
    rows, plan = Rows(columns, ((1, first), (2, second))), WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), ("other",))
    staged = target.stage(CHANGES, rows, plan, "o", into=into)
    target.commit(staged, {"other": 0}, CommitNote("other", "run", {"other": 1}))
    scope = Since("seq", initial=initial)
    declare = task(
        "shop.copy", scope=scope, inputs={"rows": read("shop.changes", by="seq")}, write=append_once(), name="copy"
    )
    declared = runtime.declare(declare(lambda rows: rows))
    assert run(runtime, declared).mark == str(second)
    assert copied(runtime) == [(1, first)]


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_a_renamed_task_goes_on_from_its_mark_and_appends_nothing_again(
    runtime: RuntimeSetup, source: Source, write: Strategy
) -> None:
    declared = copy_task(runtime, write)
    run(runtime, declared)
    before = copied(runtime)
    renamed = runtime.declare(replace(declared, name="copied", formerly=("copy",)))
    runtime.ledger.rename("copy", "copied")
    assert run(runtime, renamed).outcome is Outcome.NOTHING_NEW
    assert copied(runtime) == before


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
@pytest.mark.parametrize("initial", ["2026-06-08T00:00:00Z", "2026-06-09T00:01:30Z"])
def test_an_initial_changed_later_neither_doubles_rows_nor_skips_any(
    runtime: RuntimeSetup, source: Source, write: Strategy, initial: str
) -> None:
    run(runtime, copy_task(runtime, write))
    source.add((3, at(3), 30))
    changed = copy_task(runtime, write, initial=initial)
    assert reason_of(runtime, changed) == "2026-06-09T00:02:00Z"
    assert run(runtime, changed).mark == "2026-06-09T00:03:00Z"
    source.add((4, at(4), 40))
    run(runtime, changed)
    expected = [(1, at(1), 10), (2, at(2), 20), (3, at(3), 30), (4, at(4), 40)]
    assert copied(runtime) == (expected[:-1] if write.name == "append_once" else expected)


def test_an_initial_set_beyond_the_mark_skips_no_row_and_says_so(runtime: RuntimeSetup, source: Source) -> None:
    run(runtime, copy_task(runtime, append_once()))
    source.add((3, at(3), 30), (5, at(5), 50))
    result = run(runtime, copy_task(runtime, append_once(), initial="2026-06-09T00:04:00Z"))
    assert [row[0] for row in copied(runtime)] == [1, 2, 3]
    assert result.notes == (
        "initial=2026-06-09T00:04:00Z is later than the mark: it continues from the mark 2026-06-09T00:02:00Z",
    )


@pytest.mark.parametrize("initial", ["2026-06-09", 0])
def test_another_kind_of_cursor_is_refused_naming_mark_reset(
    runtime: RuntimeSetup, source: Source, initial: str | int
) -> None:
    run(runtime, copy_task(runtime, append_once()))
    version = runtime.target.published(COPY, ()).version
    changed = copy_task(runtime, append_once(), initial=initial)
    attempts = runtime.ledger.attempts("copy")
    with pytest.raises(DeclarationError, match=r"the table's mark is a timestamp.*twice mark reset copy"):
        run(runtime, changed)
    assert runtime.ledger.attempts("copy") == attempts, "nothing was started"
    assert "is a timestamp" in str(show_mark(runtime.context, changed).unclear)
    assert runtime.target.published(COPY, ()).version == version
    to = str(initial) if isinstance(initial, str) else "7"
    before, after = reset_mark(runtime.context, changed, Reset(to, "ada", "another cursor"))
    assert (before.at, after.at) == (None, to)
    assert reason_of(runtime, changed) == to


@pytest.mark.parametrize("initial", ["2026-06-09", 0])
def test_a_first_run_whose_initial_is_of_another_kind_than_the_cursor_says_so(
    runtime: RuntimeSetup, source: Source, initial: str | int
) -> None:
    with pytest.raises(DeclarationError, match=r"the cursor seen of rows is of type timestamp, and initial=.*Write"):
        run(runtime, copy_task(runtime, append_once(), initial=initial))


def test_a_ledger_that_does_not_know_the_mark_records_nothing_of_another_kind_either(
    runtime: RuntimeSetup, source: Source
) -> None:
    run(runtime, copy_task(runtime, append_once()))
    with closing(Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)) as fresh:
        runtime.context = replace(runtime.context, ledger=fresh)
        with pytest.raises(DeclarationError, match="the table's mark is a timestamp"):
            run(runtime, copy_task(runtime, append_once(), initial=0))
        assert fresh.attempts("copy") == ()


def test_after_the_table_was_dropped_another_kind_of_cursor_starts_over(runtime: RuntimeSetup, source: Source) -> None:
    """The ledger still knows the mark of the table that is gone: the table decides."""
    run(runtime, copy_task(runtime, append_once()))
    del runtime.target._tables[COPY.name], runtime.target._tables[CHANGES.name]
    runtime.put(CHANGES, Rows((Column("id", "bigint"), Column("seen", "bigint")), ((1, 1), (2, 2))))
    assert run(runtime, copy_task(runtime, append_once(), initial=0)).mark == "2"


def test_a_mark_of_zero_is_a_mark_also_where_the_initial_is_negative(runtime: RuntimeSetup) -> None:
    columns = (Column("id", "bigint"), Column("seq", "bigint"))
    scope = Since("seq", initial=-2)
    declare = task(
        "shop.copy", scope=scope, inputs={"rows": read("shop.changes", by="seq")}, write=append_once(), name="copy"
    )
    declared = runtime.declare(declare(lambda rows: rows))
    for newest in (0, 1, 2):
        runtime.put(CHANGES, Rows(columns, tuple((n, n) for n in range(-2, newest + 1))))
        assert run(runtime, declared).mark == str(newest)
    assert [row[0] for row in copied(runtime)] == [-2, -1, 0, 1]


def counted(runtime: RuntimeSetup, source: Source, declared: Task, minute: int) -> int:
    """A table as it was before marks were absolute: rows up to the minute, the mark counted from `initial`."""
    version = minute * 60 * 1_000_000 + 1
    app = "twice/p/copy/since"
    into = runtime.target.prepare(COPY, Shape(COLUMNS), Layout(), False)
    rows = Rows(COLUMNS, tuple(row for row in source.rows if row[1] is not None and row[1] < at(minute)))
    plan = WritePlan(AppendRows((declared.scope.only,)), (declared.scope.only,), (app,))  # type: ignore[union-attr]
    claim = runtime.ledger.claim(ClaimRequest("copy", ["since"], "old", "run", "h"), timedelta(hours=1))
    assert isinstance(claim, Claim)
    runtime.ledger.fix(claim, {"since": 0}, {"since": version})
    window = Window(at(0), at(minute), False)
    runtime.ledger.advance(claim, AttemptState.CLAIMED, AttemptState.STAGED, Facts(why=f"rows of {window}"))
    staged = runtime.target.stage(COPY, rows, plan, "old", into=into)
    runtime.target.commit(staged, {app: 0}, CommitNote("old", "run", {app: version}))
    runtime.ledger.publish("old", Facts(version=1), generations={"since": version})
    return version


@pytest.mark.parametrize("initial", ["2026-06-09T00:00:00Z", "2026-06-08T00:00:00Z", "2026-06-09T00:01:00Z"])
def test_a_mark_that_was_counted_from_an_initial_is_where_its_attempt_put_it(
    runtime: RuntimeSetup, source: Source, initial: str
) -> None:
    declared = copy_task(runtime, append_once(), initial=initial)
    version = counted(runtime, source, declared, 2)
    assert reason_of(runtime, declared) == "2026-06-09T00:02:00Z"
    source.add((3, at(3), 30), (4, at(4), 40))
    run(runtime, declared)
    assert [row[0] for row in copied(runtime)] == [1, 2, 3]
    held = runtime.target.published(COPY, ["twice/p/copy/since"]).generations["twice/p/copy/since"]
    assert held > version
    runtime.ledger.forget("copy", "since")  # nobody is needed any more to read it
    assert (
        reason_of(runtime, copy_task(runtime, append_once(), initial="2020-01-01T00:00:00Z")) == "2026-06-09T00:04:00Z"
    )


def test_a_counted_mark_is_remembered_however_many_runs_found_nothing_new_since(
    runtime: RuntimeSetup, source: Source
) -> None:
    declared = copy_task(runtime, append_once())
    counted(runtime, source, declared, 2)
    assert run(runtime, declared).outcome is Outcome.NOTHING_NEW
    looked = runtime.ledger.attempts("copy")[0].fence
    more = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < 1000)"
    with closing(connect(runtime.context.root / "ledger.db")) as ledger:
        for table in ("twice_attempts", "twice_slices"):
            names = [row[1] for row in ledger.execute(f"PRAGMA table_info({table})")]
            values = ", ".join({"fence": "fence + n", "id": "id || n"}.get(name, name) for name in names)
            ledger.execute(f"{more} INSERT INTO {table} SELECT {values} FROM {table}, more WHERE fence = {looked}")
        ledger.commit()
    assert len(runtime.ledger.attempts("copy", "since", 2000)) == 1002
    assert reason_of(runtime, declared) == "2026-06-09T00:02:00Z"
    source.add((3, at(3), 30))
    assert run(runtime, declared).outcome is Outcome.PUBLISHED


def test_a_counted_mark_of_which_nobody_remembers_the_initial_is_refused(runtime: RuntimeSetup, source: Source) -> None:
    declared = copy_task(runtime, append_once())
    version = counted(runtime, source, declared, 2)
    fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=fresh)
    rebuild_ledger(runtime.context, None)
    assert fresh.runs("copy")[0].generation == version
    with pytest.raises(
        DeclarationError, match=r"the ledger no longer has that value.*mark reset copy --to 2026-06-09T00:02:00Z"
    ):
        run(runtime, declared)
    reset_mark(runtime.context, declared, Reset("2026-06-09T00:02:00Z", "ada", "as the last run said"))
    source.add((3, at(3), 30))
    run(runtime, declared)
    assert [row[0] for row in copied(runtime)] == [1, 2]
    fresh.close()


def test_the_mark_survives_a_lost_ledger_and_another_initial_together(runtime: RuntimeSetup, source: Source) -> None:
    run(runtime, copy_task(runtime, append_once()))
    fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=fresh)
    changed = copy_task(runtime, append_once(), initial="2026-06-01T00:00:00Z")
    rebuild_ledger(runtime.context, None)
    assert run(runtime, changed).outcome is Outcome.NOTHING_NEW
    source.add((3, at(3), 30))
    run(runtime, changed)
    assert [row[0] for row in copied(runtime)] == [1, 2]
    fresh.close()
