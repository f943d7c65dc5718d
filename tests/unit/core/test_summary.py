"""Results show themselves: one line of text, a small table in a notebook, and no markup from data."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

import pytest

from twice.core.backfill.plan import BackfillRequest
from twice.core.backfill.result import BackfillResult, BackfillState, BatchState, SliceReport
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptRecord, AttemptState, RunRecord, SliceRecord
from twice.core.ports import Leaf, Suspicion
from twice.core.results.proof import Proof, Trial, TrialResult
from twice.core.results.recover import Recovered, RecoverResult
from twice.core.results.run import Outcome, RetryResult, RunAllResult, RunResult, SliceResult, StaleSlice, last_of
from twice.core.results.status import History, Status
from twice.core.results.summary import SHOWN, Summarized, html_table
from twice.core.table.mark import version_of
from twice.runtime.run.explain import Explanation

EVIL = "<script>alert('&')</script>"
NOW = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)


def run(label: str = "2026-06-09", outcome: Outcome = Outcome.PUBLISHED, why: str = EVIL) -> RunResult:
    return RunResult("revenue", outcome, (SliceResult(label, 1, 1200),), "a", why, version=3)


def attempt(state: AttemptState = AttemptState.FAILED) -> AttemptRecord:
    record = SliceRecord("2026-06-09", rows=3)
    end: Any = (NOW, NOW, None, (record,), (), (), "x", None, (), {}, {"code": "run", "what": EVIL}, False)
    return AttemptRecord("0123456789", "revenue", "run", state, 1, "me", *end)


def published(label: str = "2026-06-09") -> RunRecord:
    return RunRecord("revenue", label, 1, "a", None, 3, "f", 1, NOW, "a", AttemptState.PUBLISHED)


SLICES = tuple(
    SliceReport("revenue", f"2026-06-0{day}", "missing", EVIL, 0, state, error=error)
    for day, state, error in ((1, BatchState.DONE, None), (2, BatchState.FAILED, {"what": EVIL}))
)
STATUS = Status((published(),), 7, 1, stale={("revenue", "2026-06-09"): EVIL}, effects={EffectState.IN_DOUBT: 2})
RESULTS: list[tuple[Summarized, str]] = [
    (run(), "revenue[2026-06-09]: published, 1,200 rows, version 3"),
    (
        last_of([run("2026-06-07"), run("2026-06-08"), run(outcome=Outcome.ALREADY)]),
        "revenue[2026-06-07..2026-06-09]: 3 runs, 2 published, 1 already published; "
        "the last: already published, 1,200 rows, version 3",
    ),
    (
        RetryResult((run("2026-06-07"), run("2026-06-08"), run(outcome=Outcome.ALREADY))),
        "3 runs, 2 published, 1 already published: revenue[2026-06-07..2026-06-09]",
    ),
    (
        RunAllResult((run(), run("2026-06-08")), {"later": EVIL}, (StaleSlice("below", "2026-06-01", EVIL),)),
        "1 task done in 2 runs, 2 published; left out: later; stale: below[2026-06-01]",
    ),
    (
        RecoverResult((Recovered("0123456789", EVIL, ("2026-06-09",), AttemptState.ABANDONED),), 2),
        f"1 attempt settled, 1 abandoned: {EVIL}[2026-06-09]; 2 still at work",
    ),
    (
        Proof("revenue", "2026-06-09", "c", NOW, (Trial("twice", TrialResult.SAME, EVIL),), 1.25),
        "revenue[2026-06-09]: proved, 1 scenario, 1.2 s",
    ),
    (
        Proof("revenue", "2026-06-09", "c", NOW, (Trial("crash", TrialResult.CHANGED, EVIL),), 1.0),
        "revenue[2026-06-09]: CHANGED after crash, 1 scenario, 1.0 s",
    ),
    (
        BackfillResult("june", BackfillRequest("revenue", "2026-06-01", "2026-06-02"), BackfillState.FINISHED, SLICES),
        "june: revenue[2026-06-01..2026-06-02], both included: finished, 1 of 2 slices done, 1 failed",
    ),
    (
        BackfillResult("june", BackfillRequest("revenue", "2026-06-01", "2026-06-02"), BackfillState.PLANNED, SLICES),
        "june: revenue[2026-06-01..2026-06-02], both included: plan only, not started, 2 slices to do",
    ),
    (
        BackfillResult(
            "june", BackfillRequest("revenue", "2026-06-01", "2026-06-01"), BackfillState.RUNNING, SLICES[:1]
        ),
        "june: revenue[2026-06-01]: running, 1 of 1 slice done",
    ),
    (STATUS, "7 slices, 1 failed, 1 stale, 2 effects waiting for a person"),
    (History([attempt()]), "1 attempt, the last failed: revenue[2026-06-09]"),
    (
        Explanation(
            *("revenue", "shop.revenue", "replace", "2026-06-09", 1, 3, True, EVIL),
            (Leaf("delta", EVIL, "i", 4),),
            (Suspicion("rand", ("amount",), "why", "fix"),),
        ),
        f"revenue[2026-06-09]: would be computed ({EVIL})",
    ),
]


@pytest.mark.parametrize(("result", "line"), RESULTS, ids=lambda value: type(value).__name__)
def test_a_result_is_one_line_and_its_repr_names_its_type(result: Summarized, line: str) -> None:
    assert str(result) == line
    assert repr(result) == f"<{type(result).__name__} {line}>"


@pytest.mark.parametrize("result", [result for result, _ in RESULTS], ids=lambda result: type(result).__name__)
def test_what_a_notebook_shows_has_no_markup_from_data(result: Summarized) -> None:
    shown = result._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in shown
    assert shown.count("<tr>") > 1


def test_no_attempt_is_an_empty_history_without_a_table() -> None:
    assert str(History()) == "no attempt yet"
    assert History()._repr_html_() == "<div><p>no attempt yet</p></div>"
    assert History([attempt()]) == (attempt(),)


@pytest.mark.parametrize(
    ("empty", "line"),
    [
        (RetryResult(), "nothing has failed"),
        (RetryResult(left_out={"copy": "its scope …"}), "left out: copy"),
        (RecoverResult(), "nothing to settle"),
    ],
)
def test_nothing_done_is_an_empty_result_that_is_falsy(empty: Any, line: str) -> None:
    assert not empty and len(empty) == 0 and list(empty) == [] and empty == ()
    assert str(empty) == line
    assert empty._repr_html_() == f"<div><p>{line}</p></div>"


def test_what_was_retried_is_a_sequence_of_runs() -> None:
    first, second = run("2026-06-07"), run("2026-06-08")
    found = RetryResult((first, second))
    assert found and len(found) == 2
    assert (found[0], found[-1], found[:1], list(found)) == (first, second, (first,), [first, second])
    assert found == (first, second) and found == RetryResult((first, second)) and found != (first,)
    assert first in found
    (one,) = RecoverResult((Recovered("a", "revenue", (), AttemptState.PUBLISHED),))
    assert one.task == "revenue"


def test_a_repr_is_one_line_whatever_its_data_holds() -> None:
    assert repr(History([replace(attempt(), task="a\n  b")])) == (
        "<History 1 attempt, the last failed: a b[2026-06-09]>"
    )


def test_a_long_table_is_cut_and_says_how_much_is_missing() -> None:
    shown = html_table("many", ("n",), [(n,) for n in range(SHOWN + 1200)])
    assert shown.count("<tr>") == SHOWN + 1
    assert shown.endswith("<p>and 1,200 more</p></div>")


def test_a_column_without_a_value_is_left_out_numbers_are_to_the_right_and_times_without_fractions() -> None:
    shown = html_table("some", ("who", "why", "rows", "at"), [("a", None, 1200, NOW), ("b", None, None, None)])
    left = ' style="text-align:left"'
    assert f"<tr><th{left}>who</th><th>rows</th><th{left}>at</th></tr>" in shown
    assert f"<tr><td{left}>a</td><td>1,200</td><td{left}>2026-06-09 12:00:00 UTC</td></tr>" in shown
    assert f"<tr><td{left}>b</td><td></td><td{left}></td></tr>" in shown
    assert "color" not in shown


def test_the_last_of_several_runs_knows_those_before_it_oldest_first() -> None:
    first, second = run("2026-06-07"), run("2026-06-08")
    last = last_of([first, second, run()])
    assert last.earlier == (first, second)
    assert [row[0] for row in last.as_table()[1]] == [f"revenue[2026-06-0{day}]" for day in (7, 8, 9)]
    assert last_of([first]) == first


def test_a_status_needs_attention_if_something_failed_or_an_effect_waits() -> None:
    assert STATUS.needs_attention
    assert Status((), 0, 0, effects={EffectState.DEAD: 1}).needs_attention
    assert not Status((published(),), 1, 0, effects={EffectState.SENT: 1}).needs_attention


def test_a_mark_is_shown_as_what_it_counts_also_where_the_run_has_published_nothing() -> None:
    mark = version_of(date(2026, 6, 9))
    lost = RunResult("feed", Outcome.UNKNOWN, (SliceResult("since", mark),), "a", "another published first")
    assert [row[2] for row in lost.as_table()[1]] == ["2026-06-09"]
    record = replace(published("since"), generation=mark)  # of a task that is not declared any more
    assert [row[2] for row in Status((record,), 1, 0).as_table()[1]] == ["2026-06-09"]
