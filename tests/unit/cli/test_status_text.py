"""What status prints: the tasks in lines, the slices that are not right, and one last line with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from twice.cli import status_text
from twice.cli.next_step import conclusion
from twice.cli.status_text import print_slices, print_tasks, print_wrong_slices
from twice.cli.terminal import Screen, Symbol, wide
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState, RunRecord
from twice.core.results.proof import ProofRecord
from twice.core.results.status import Status, TaskStatus

NINE, TEN = (datetime(2026, 6, 11, hour, 12, tzinfo=timezone.utc) for hour in (9, 10))
WHY = "its input shop.orders changed since version 2"
LONG = "orders_of_the_shops_in_the_north_of_the_country"


def run(task: str = "orders", label: str = "2026-06-09", state: AttemptState = AttemptState.PUBLISHED) -> RunRecord:
    return RunRecord(task, label, 1, "a", None, 3, "f", 1, NINE, "a", state)


def task(name: str = "orders", **known: Any) -> TaskStatus:
    return replace(TaskStatus(name, "daily", "2026-06-09", 9, looked=NINE), **known)


def whys(*labels: str, why: str = WHY) -> dict[str, str]:
    return dict.fromkeys(labels, why)


def status(*tasks: TaskStatus, kept: Mapping[tuple[str, str], str] | None = None, **known: Any) -> Status:
    """As `inspect.status` gives it."""
    stale = {(one.task, label): why for one in tasks for label, why in one.stale.items()}
    failed = sum(len(one.failed) for one in tasks)
    return Status((run(),), 1, failed, run() if failed else None, stale=stale, kept=kept or {}, tasks=tasks, **known)


PROOF = ProofRecord("orders", "2026-06-09", "c", NINE, True)


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (task(looked=None), "orders: daily, newest 2026-06-09, 9 published"),
        (task(), "orders: daily, newest 2026-06-09, 9 published, looked 2026-06-11 09:12"),
        (
            task(missing=whys("a"), failed=whys("b"), stale=whys("c", "d"), running=("e",), silent=("f",), looked=None),
            "orders: daily, newest 2026-06-09, 9 published, 1 missing, 1 failed, 2 stale, 1 running, "
            "1 stopped reporting",
        ),
        (TaskStatus("orders", "whole"), "orders: whole, nothing published"),
        (TaskStatus("gone", None, "2026-06-09", 2), "gone: not declared any more, newest 2026-06-09, 2 published"),
        (task(looked=None, proof=(PROOF, True)), "orders: daily, newest 2026-06-09, 9 published, proved"),
        (
            task(looked=None, proof=(replace(PROOF, holds=False), False)),
            "orders: daily, newest 2026-06-09, 9 published, NOT proved at another code version",
        ),
    ],
)
def test_a_task_is_one_line_without_what_there_is_none_of(one: TaskStatus, line: str) -> None:
    assert str(one) == line


def test_a_task_is_right_if_something_is_published_and_nothing_is_wrong() -> None:
    assert task().right and not TaskStatus("orders", "daily").right
    wrong: tuple[dict[str, Any], ...] = ({"missing": whys("a")}, {"failed": whys("a")}, {"stale": whys("a")})
    assert not any(task(**one).right for one in (*wrong, {"silent": ("a",)}))
    assert [task(proof=(PROOF, current)).proved for current in (True, False)] == [True, False]


@pytest.mark.parametrize(
    ("found", "mark", "truth", "then"),
    [
        (status(task(), task("top", looked=TEN)), Symbol.DONE, "every task is right as of 2026-06-11 09:12 UTC", ""),
        (status(task()), Symbol.DONE, "orders is right as of 2026-06-11 09:12 UTC", ""),
        (
            status(task(), TaskStatus("feed", "since", "2026-06-09", 1)),
            Symbol.DONE,
            "every task is right as of 2026-06-11 09:12 UTC",
            "",
        ),
        (
            status(task(), task("top", looked=None)),
            Symbol.DONE,
            "every task is right as far as the ledger knows",
            "twice status --refresh (it looks at the tables)",
        ),
        (
            status(task(looked_at_this_code=False)),
            Symbol.DONE,
            "orders is right as far as the ledger knows",
            "twice status --refresh (it looks at the tables)",
        ),
        (
            status(task(), TaskStatus("top", "daily")),
            Symbol.WAITING,
            "nothing is published of top",
            "twice run TASK --date DATE",
        ),
        (
            status(task(stale=whys("2026-06-01", "2026-06-03"))),
            Symbol.NOTICE,
            "2 slices are stale",
            "twice backfill orders --from 2026-06-01 --to 2026-06-03 --only stale --with-downstream",
        ),
        (
            status(task(stale=whys("2026-06-02")), task("top", scope="monthly", stale=whys("2026-05"))),
            Symbol.NOTICE,
            "2 slices are stale",
            "twice backfill --all --only stale",
        ),
        (
            status(task(missing=whys("2026-06-02")), task("top", scope="monthly", missing=whys("2026-05"))),
            Symbol.WAITING,
            "2 slices are missing",
            "twice backfill --all --from 2026-05-01 --to 2026-06-02",
        ),
        (status(task(stale=whys("all"))), Symbol.NOTICE, "1 slice is stale", "twice run orders"),
        (
            status(task(stale=whys("since")), kept={("orders", "since"): "twice accept orders --reason REASON"}),
            Symbol.NOTICE,
            "1 slice is stale",
            "twice accept orders --reason REASON",
        ),
        (
            status(task(missing=whys("2026-06-02", "2026-06-05"))),
            Symbol.WAITING,
            "2 slices are missing",
            "twice backfill orders --from 2026-06-02 --to 2026-06-05",
        ),
        (
            status(task(missing=whys("all"), scope="whole")),
            Symbol.WAITING,
            "1 slice is missing",
            "twice run orders",
        ),
        (
            status(task(failed=whys("2026-06-09")), task("top", stale=whys("2026-06-09"))),
            Symbol.FAILED,
            "1 slice failed, 1 slice is stale",
            "twice history orders --date 2026-06-09, then twice retry --failed",
        ),
        (
            status(task(silent=("2026-06-09",), failed=whys("2026-06-08"))),
            Symbol.FAILED,
            "1 slice stopped reporting, 1 slice failed",
            "twice recover",
        ),
    ],
)
def test_the_last_line_says_what_is_true_and_the_one_command_that_comes_next(
    found: Status, mark: Symbol, truth: str, then: str
) -> None:
    assert conclusion(found) == (mark, truth, then)


def test_in_a_pipe_the_tasks_are_a_plain_table_with_why_and_a_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = status(
        task(stale=whys("2026-06-08")),
        TaskStatus("top", "every 15 min"),
        TaskStatus("gone", None, "all", 1),
        effects={EffectState.DEAD: 2},
        not_looked_at={"top": "its table is away"},
    )
    print_tasks(found)
    assert capsys.readouterr().out.splitlines() == [
        "task    scope         newest      slices",
        "orders  daily         2026-06-09  9 published, 1 stale, looked 2026-06-11 09:12",
        "top     every 15 min  -           nothing published",
        "gone    not declared  all         1 published",
        f"stale: orders[2026-06-08] because {WHY}; next: twice backfill orders --from 2026-06-08 --to 2026-06-08 "
        "--only stale --with-downstream",
        "top could not be looked at: its table is away; what is known of it is older",
        "effects wait for a person: 2 dead",
        "next: twice effects list",
        "1 slice is stale; next: twice backfill orders --from 2026-06-08 --to 2026-06-08 --only stale "
        "--with-downstream",
    ]


def test_before_anything_has_run_the_next_step_is_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    print_tasks(Status((), 0, 0, tasks=(TaskStatus("orders", "daily"),)))
    assert capsys.readouterr().out == "nothing has run yet\nnext: twice run TASK --date DATE\n"


def test_slices_that_are_not_right_are_listed_by_state_with_why(capsys: pytest.CaptureFixture[str]) -> None:
    way_out = "twice accept feed --reason REASON"
    found = status(
        task(missing=whys("2026-06-01", why="never published"), failed=whys("2026-06-02", why="rejected: no rows")),
        task("feed", scope="since", stale=whys("since")),
        kept={("feed", "since"): way_out},
    )
    print_wrong_slices(found, ("missing", "stale"), 50)
    last = "1 slice failed, 1 slice is stale, 1 slice is missing; next: twice history orders --date 2026-06-09, "
    assert capsys.readouterr().out.splitlines() == [
        "slice               state    why",
        f"feed[since]         stale    {WHY}",
        "orders[2026-06-01]  missing  never published",
        f"feed[since]: no run computes it again; next: {way_out}",
        f"{last}then twice retry --failed",
    ]
    print_wrong_slices(found, ("missing", "failed"), 1)
    assert "(1 more; --limit shows them)" in capsys.readouterr().out.splitlines()
    print_wrong_slices(status(task()), ("missing", "failed"), 1)
    assert capsys.readouterr().out.splitlines() == [
        "no slice is missing or failed",
        "orders is right as of 2026-06-11 09:12 UTC",
    ]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setattr(status_text, "on_terminal", lambda: True)
    monkeypatch.setattr("twice.cli.terminal.screen_of", lambda _: Screen(80, colours=False, letters=True))


@pytest.mark.usefixtures("narrow")
def test_on_a_terminal_nothing_is_wider_than_80_columns_and_each_line_has_its_symbol(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every = {name: whys("2026-06-01", "2026-06-02") for name in ("missing", "failed", "stale")}
    found = status(task(), task(LONG, proof=(PROOF, False), running=("2026-06-03",), silent=("2026-06-04",), **every))
    print_tasks(found)
    print_wrong_slices(found, ("missing", "failed", "stale"), 50)
    print_slices(replace(found, runs=(run(), run(LONG, state=AttemptState.REJECTED)), proofs=((PROOF, True),)))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if wide(line) > 80] == []
    assert lines[0].startswith("  task") and lines[1].startswith("✓ orders ")
    assert any(line.startswith("✗ orders_of") for line in lines)
    assert any(line.startswith("! orders_of") and ": stale, " in line for line in lines)
    assert any(line.startswith("○ orders_of") and ": missing, " in line for line in lines)
    assert "  slice       published            generation  rows  last attempt" in lines
    assert "✓ 2026-06-09  2026-06-11 09:12:00  1           3     published" in lines
    assert "✗ 2026-06-09  2026-06-11 09:12:00  1           3     rejected" in lines


def test_in_a_pipe_the_slices_of_a_task_are_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    print_slices(status(task()))
    assert capsys.readouterr().out.splitlines() == [
        "slice               published            generation  rows  last attempt",
        "orders[2026-06-09]  2026-06-11 09:12:00  1           3     published",
    ]


def test_a_notebook_shows_the_tasks_and_then_the_slices() -> None:
    shown = status(task("<b>", stale=whys("2026-06-08")))._repr_html_()
    assert shown.index("1 task") < shown.index("&lt;b&gt;") < shown.index("orders[2026-06-09]")
    assert "<b>" not in shown
    assert str(task(stale=whys("a")).as_table()[1]) == f"[('orders[a]', 'stale', '{WHY}')]"
