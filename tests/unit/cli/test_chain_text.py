"""What `run --all` and `status` say of a chain's end and of what is stale."""

from __future__ import annotations

import pytest

from twice.cli.options import Format
from twice.cli.records import stale_line
from twice.cli.runs import print_ends
from twice.core.scope import Daily
from twice.core.slice import WHOLE
from twice.runtime.run.run_many import TaskEnd
from twice.runtime.staleness.stale import Stale

SCOPE = Daily("d", start="2026-01-01")
WHY = "its input shop.copy was published again since: copy[2026-06-08]"


def stale(*days: str) -> tuple[Stale, ...]:
    return tuple(Stale("below", SCOPE.slice_of(f"2026-06-{day}"), WHY) for day in days)


def test_tasks_are_right_of_those_asked_and_what_was_left_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = TaskEnd("new", left_out="2026-06-09 is before the task's start, 2026-07-01")
    assert print_ends((TaskEnd("copy"), TaskEnd("below", stale=stale("07", "08")), late), Format.text) == 0
    assert capsys.readouterr().out.splitlines() == [
        "new: left out, because 2026-06-09 is before the task's start, 2026-07-01",
        "2 of 2 tasks are right, 1 left out, 2 slices of other dates are stale",
        f"  below: 2 slices are stale, the first: {WHY}; "
        "next: twice backfill below --from 2026-06-07 --to 2026-06-08 --only stale --with-downstream",
    ]


def test_one_stale_slice_is_named_with_the_command_that_makes_it_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_ends((TaskEnd("below", stale=stale("08")),), Format.text)
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"  below[2026-06-08] is stale: {WHY}; "
        "next: twice backfill below --from 2026-06-08 --to 2026-06-08 --only stale --with-downstream"
    )
    print_ends((TaskEnd("total", stale=(Stale("total", WHOLE, WHY),)),), Format.text)
    assert capsys.readouterr().out.splitlines()[-1] == f"  total[all] is stale: {WHY}; next: twice run total"


def test_a_failed_task_still_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_ends((TaskEnd("copy"), TaskEnd("below", waits_for="copy")), Format.text) == 1
    assert "1 of 2 tasks are right, the others can be run again" in capsys.readouterr().out


def test_status_says_what_is_stale_why_and_what_makes_it_right() -> None:
    assert stale_line("below", {"2026-06-08": WHY}) == (
        f"stale: below[2026-06-08] because {WHY}; "
        "next: twice backfill below --from 2026-06-08 --to 2026-06-08 --only stale --with-downstream"
    )
    assert stale_line("total", {"all": "the code or its options changed"}) == (
        "stale: total[all] because the code or its options changed; next: twice run total"
    )
    assert stale_line("below", {"2026-06-07": WHY, "2026-06-08": "x"}).startswith(
        "stale: 2 slices of below, the first 2026"
    )
