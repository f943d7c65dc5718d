"""What a run reports while it goes, and that nothing depends on who watches."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NoReturn

from tests.runtime.conftest import RuntimeSetup, revenue_task
from tests.runtime.run.test_retry import Failing, cut, declared

from twice import Outcome
from twice.core.ledger.record import ClaimRequest
from twice.core.ports import STEPS
from twice.core.results.run import RunRequest
from twice.runtime.run.explain import explain_run
from twice.runtime.run.run_many import run_all, run_slices

DAY = "revenue[2026-06-09]"


@dataclass
class Watching:
    """Remembers what it hears. `waiting` is set when somebody waits."""

    heard: list[tuple[str, ...]] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        self.heard.append((step, where, detail))
        if step == "waiting":
            self.waiting.set()

    def learns(self, fact: str) -> None:
        self.heard.append((fact,))

    def counts(self, at: int, total: int, noun: str) -> None:
        self.heard.append((f"{noun} {at} of {total}",))

    def ends(self) -> None:
        self.heard.append(("ends",))


class Broken:
    """A display whose terminal is gone."""

    def begins(self, step: str, where: str = "", detail: str = "") -> NoReturn:
        raise OSError("no such terminal")

    def learns(self, fact: str) -> NoReturn:
        raise OSError("no such terminal")

    def counts(self, at: int, total: int, noun: str) -> NoReturn:
        raise OSError("no such terminal")

    def ends(self) -> NoReturn:
        raise OSError("no such terminal")


def watched(runtime: RuntimeSetup) -> Watching:
    watching = Watching()
    runtime.context = replace(runtime.context, progress=watching)
    return watching


def test_a_run_reports_its_steps_in_their_order_and_its_rows_when_they_are_known(runtime: RuntimeSetup) -> None:
    task = runtime.declare(revenue_task())
    watching = watched(runtime)
    runtime.run(task)
    steps = [(step, DAY, "") for step in STEPS]
    assert watching.heard == [*steps[:5], ("1 row",), *steps[5:]]


def test_who_watches_badly_fails_no_run_and_changes_no_result(runtime: RuntimeSetup) -> None:
    task = runtime.declare(revenue_task())
    runtime.context = replace(runtime.context, progress=Broken())
    (end,) = run_all(runtime.context, "2026-06-09", None)
    assert end.error is None
    assert [result.outcome for result in end.results] == [Outcome.PUBLISHED]
    assert runtime.run(task).outcome is Outcome.ALREADY


def test_several_slices_and_tasks_are_counted(runtime: RuntimeSetup) -> None:
    task = runtime.declare(revenue_task(lookback=1))
    watching = watched(runtime)
    run_all(runtime.context, "2026-06-10", None)
    heard = [each[0] for each in watching.heard]
    assert heard[0] == "task 1 of 1"
    assert [each for each in heard if each.startswith("slice")] == ["slice 1 of 2", "slice 2 of 2"]
    watching.heard.clear()
    explain_run(runtime.context, task, task.scope.slice_of("2026-06-10"))  # type: ignore[union-attr]
    assert watching.heard == [
        ("slice 1 of 2",),
        ("look", DAY, ""),
        ("compute", DAY, ""),
        ("slice 2 of 2",),
        ("look", "revenue[2026-06-10]", ""),
        ("compute", "revenue[2026-06-10]", ""),
    ]


def test_an_attempt_that_failed_is_reported_with_the_pause_before_the_next(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(cut()))
    watching = watched(runtime)
    runtime.run(task)
    (waited,) = [each for each in watching.heard if each[0] == "next attempt in 4 s"]
    assert waited[1] == DAY
    assert waited[2].startswith("attempt 1 failed: ") and "connection reset by peer" in waited[2]


def test_who_waits_for_a_busy_slice_says_for_whom(runtime: RuntimeSetup) -> None:
    task = runtime.declare(revenue_task())
    watching = watched(runtime)
    runtime.ledger.claim(
        ClaimRequest("revenue", ("2026-06-09",), "a" * 32, "run", "another host"), timedelta(minutes=5)
    )
    results: list[Any] = []
    slices = (task.scope.slice_of("2026-06-09"),)  # type: ignore[union-attr]
    request = RunRequest(wait=timedelta(minutes=1))
    thread = threading.Thread(target=lambda: results.extend(run_slices(runtime.context, task, slices, request)))
    thread.start()
    assert watching.waiting.wait(30)
    runtime.ledger.release("a" * 32)
    thread.join()
    assert [result.outcome for result in results] == [Outcome.PUBLISHED]
    (waited,) = [each for each in watching.heard if each[0] == "waiting"]
    assert waited[1] == DAY
    assert waited[2].startswith("another attempt (aaaaaaaa, another host) is running this slice; its lease runs until")
