"""What `run --all` and `status` say of a chain's end and of what is stale."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from twice.cli import run_text
from twice.cli.next_step import stale_line
from twice.cli.options import Format, print_error
from twice.cli.run_text import print_ends
from twice.core.results.run import Outcome, RunResult, SliceResult
from twice.core.scope import Daily
from twice.core.since import SINCE
from twice.core.slice import WHOLE
from twice.core.table.mark import version_of
from twice.errors import Interrupted, RunError, SliceBusy
from twice.runtime.run.chain import Report, TaskEnd
from twice.runtime.staleness.stale import Stale

SCOPE = Daily("d", start="2026-01-01")
WHY = "its input shop.copy was published again since: copy[2026-06-08]"


def stale(*days: str) -> tuple[Stale, ...]:
    return tuple(Stale("below", SCOPE.slice_of(f"2026-06-{day}"), WHY) for day in days)


def printed(ends: tuple[TaskEnd, ...]) -> int:
    """A chain whose tasks end like this."""

    def run(report: Report) -> tuple[TaskEnd, ...]:
        for end in ends:
            report(end)
        return ends

    return print_ends(run, Format.text)


def interrupted(report: Report) -> tuple[TaskEnd, ...]:
    report(TaskEnd("new", left_out="it begins later"))
    raise Interrupted(RunError("interrupted", where="below[2026-06-09]"), 143)


def test_what_ended_before_an_interrupt_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Interrupted):
        print_ends(interrupted, Format.text)
    assert capsys.readouterr().out == "new: left out, because it begins later\n"


def test_as_json_an_interrupt_leaves_one_document_with_what_ended_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert print_ends(interrupted, Format.json) == 143
    document = json.loads(capsys.readouterr().out)
    assert [task["left_out"] for task in document["tasks"]] == ["it begins later"]
    assert document["error"]["where"] == "below[2026-06-09]"


def done(label: str) -> RunResult:
    return RunResult("below", Outcome.PUBLISHED, (SliceResult(label, 1, 3, None),), "attempt", "never published", 7)


def busy() -> SliceBusy:
    error = SliceBusy("another attempt is running this slice", where="below[2026-06-08]")
    error.results = (done("2026-06-07"), done("2026-06-09"))
    return error


@pytest.mark.parametrize("end", [busy(), Interrupted(busy(), 130)], ids=["failed", "interrupted"])
def test_a_run_of_several_slices_prints_those_that_ended_well_before_the_error(
    end: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(end)), run_text.printing_others(Format.text):
        raise end
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("below")]
    assert lines == [f"below[2026-06-{day}]: published (generation 1, 3 rows, version 7)" for day in ("07", "09")]


def test_as_json_they_stand_beside_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SliceBusy) as caught, run_text.printing_others(Format.json):
        raise busy()
    print_error(caught.value, as_json=True, debug=False)
    document = json.loads(capsys.readouterr().out)
    assert [result["slices"][0]["label"] for result in document["results"]] == ["2026-06-07", "2026-06-09"]
    assert document["error"]["code"] == "busy"


def test_tasks_are_right_of_those_asked_and_what_was_left_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = TaskEnd("new", left_out="2026-06-09 is before the task's start, 2026-07-01")
    assert printed((TaskEnd("copy"), TaskEnd("below", stale=stale("07", "08")), late)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "new: left out, because 2026-06-09 is before the task's start, 2026-07-01",
        "2 of 2 tasks are done, 1 left out, 2 slices are stale",
        f"  below: 2 slices are stale, the first: {WHY}; "
        "next: twice backfill below --from 2026-06-07 --to 2026-06-08 --only stale --with-downstream",
    ]


def test_one_stale_slice_is_named_with_the_command_that_makes_it_right(capsys: pytest.CaptureFixture[str]) -> None:
    printed((TaskEnd("below", stale=stale("08")),))
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"  below[2026-06-08] is stale: {WHY}; "
        "next: twice backfill below --from 2026-06-08 --to 2026-06-08 --only stale --with-downstream"
    )
    printed((TaskEnd("total", stale=(Stale("total", WHOLE, WHY),)),))
    assert capsys.readouterr().out.splitlines()[-1] == f"  total[all] is stale: {WHY}; next: twice run total"


def test_a_failed_task_still_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed((TaskEnd("copy"), TaskEnd("below", waits_for="copy"))) == 1
    assert "1 of 2 tasks are done, the others can be run again" in capsys.readouterr().out


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


def test_what_waits_for_a_task_that_was_itself_not_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    ends = (
        TaskEnd("copy", error=RunError("broken", where="copy[2026-06-09]")),
        TaskEnd("below", waits_for="copy"),
        TaskEnd("total", waits_for="below"),
    )
    printed(ends)
    assert capsys.readouterr().out.splitlines() == [
        "below: not run, because copy did not succeed",
        "total: not run, because below was not run",
        "0 of 3 tasks are done, the others can be run again",
    ]


def test_a_run_that_lost_to_another_says_the_mark_as_a_date_and_its_hint_names_no_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = RunResult("feed", Outcome.ALREADY, (SliceResult("since", version_of(date(2026, 6, 9))),), "a", "b was first")
    printed((TaskEnd("feed", (lost,)),))
    assert capsys.readouterr().out.splitlines()[0] == "feed[since]: already published (mark 2026-06-09)"
    assert run_text.dated(lost) == ""
    assert run_text.dated(replace(lost, slices=(SliceResult("all", 2),))) == ""
    assert run_text.dated(replace(lost, slices=(SliceResult("2026-06-09", 2),))) == " --date 2026-06-09"


def test_one_is_counted_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    printed((TaskEnd("below", stale=stale("08")),))
    assert capsys.readouterr().out.startswith("1 of 1 task is done, 1 slice is stale")


_UNCOUNTED = re.compile(
    r"\} (?:published |sent |old )?(?:attempts|backfills|commits|differences|effects|files|findings|proofs|rows|slices|"
    r"tasks|tries)\b"
)


@pytest.mark.parametrize("path", sorted(Path(run_text.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_command_counts_by_itself(path: Path) -> None:
    """`counted` knows that one is no plural."""
    assert _UNCOUNTED.findall(path.read_text()) == []


def test_what_no_run_computes_again_is_named_with_what_a_person_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    out = "twice mark reset feed --to MARK --reason REASON, with a MARK before the first row of a[1], and run it"
    printed((TaskEnd("feed", stale=(Stale("feed", SINCE, WHY, out),)),))
    assert capsys.readouterr().out.splitlines()[-1] == f"  feed[since] is stale: {WHY}; next: {out}"
    assert stale_line("feed", {"since": WHY}, {"since": out}) == f"stale: feed[since] because {WHY}; next: {out}"
