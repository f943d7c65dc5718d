"""The verbs in Python, as far as they need no Spark: what is known of a project, and what is refused at once."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.processes.ended import ended_process

import twice
from twice.cli.main import app
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import ClaimRequest
from twice.core.table.mark import version_of
from twice.errors import UsageError
from twice.project import status
from twice.runtime.holder import this_process
from twice.wiring.open_project import open_project


def test_status_and_history_of_a_fresh_project_are_empty(root: Path) -> None:
    found = twice.status(project=root)
    assert (found.runs, found.total, found.failed, found.needs_attention) == ((), 0, 0, False)
    assert twice.history("revenue", date="2026-06-09", project=root, profile="prod") == ()


def test_status_does_not_take_what_a_killed_process_left_for_work(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = ended_process()
    lease = timedelta(minutes=5)
    with open_project(root) as opened:
        for label, holder in (("2026-06-01", gone), ("2026-06-02", this_process())):
            opened.ledger.claim(ClaimRequest("revenue", [label], label, "run", holder), lease)
    found = twice.status(project=root)
    assert found.silent == {("revenue", "2026-06-01")}
    assert [row[4] for row in found.as_table()[1]] == ["claimed, stopped reporting", "claimed"]
    assert app(["status", "revenue", "-C", str(root)], standalone_mode=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("claimed, stopped reporting") for line in lines[1:3]] == [True, False]
    assert lines[3].startswith("next: twice recover")


@pytest.mark.parametrize("killed", [True, False])
def test_a_backfill_whose_worker_was_killed_is_listed_with_what_goes_on_with_it(
    root: Path, capsys: pytest.CaptureFixture[str], killed: bool
) -> None:
    slices = (PlannedSlice("2026-06-01", "missing", "never published"),)
    request = BackfillRequest("revenue", "2026-06-01", "2026-06-01")
    with open_project(root) as opened:
        opened.ledger.backfills.create(BackfillPlan("june", request, (PlannedBatch(1, "revenue", slices, "run"),)))
        holder = ended_process() if killed else this_process()
        assert opened.ledger.backfills.claim("june", holder, timedelta(minutes=5)) is not None
    assert app(["backfill", "list", "-C", str(root)], standalone_mode=False) == 0
    idle = f"june  0/1 slice, no worker is running it; next: twice backfill resume --project {root} june"
    assert capsys.readouterr().out.strip() == (idle if killed else "june  running  0/1 slice")
    app(["backfill", "list", "-C", str(root), "--output", "json"], standalone_mode=False)
    (print_holder,) = json.loads(capsys.readouterr().out)["backfills"]
    assert (print_holder["state"], print_holder["holders"]) == ("running", 0 if killed else 1)
    app(["backfill", "show", "june", "-C", str(root)], standalone_mode=False)
    assert ("backfill june: no worker is running it" in capsys.readouterr().out) == killed


def test_the_mark_of_a_task_that_is_not_declared_any_more_is_shown_as_a_mark(root: Path) -> None:
    mark = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)
    with open_project(root) as opened:
        opened.ledger.record_found("gone", [FoundPublish("all", version_of(mark)), FoundPublish("2026-06-09", 3)])
        found = status.status(opened, None, None)
    assert {run.label: found.marks.get((run.task, run.label)) for run in found.runs} == {
        "all": "2026-06-09T12:00:00Z",
        "2026-06-09": None,
    }


def test_nothing_failed_so_nothing_is_tried_again_and_no_spark_is_started(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(root / "no-java"))
    assert twice.retry(project=root) == ()
    assert twice.retry("revenue", project=root) == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda root: twice.run("revenu", project=root), "there is no task 'revenu' .* Did you mean revenue"),
        (lambda root: twice.run("revenue", project=root), "no date given"),
        (lambda root: twice.run("revenue", date=date(2026, 5, 1), project=root), "2026-05-01"),
        (lambda root: twice.run_all(date="yesterday", project=root), "yesterday"),
        (lambda root: twice.restate("everything", date="2026-06-09", project=root), "owns its whole table"),
        (lambda root: twice.history("nothing", project=root), "there is no task 'nothing'"),
        (lambda root: twice.status("nothing", project=root), "there is no task 'nothing'"),
        (lambda root: twice.retry(date="2026-06-09", project=root), "a date needs one task"),
        (lambda root: twice.prove("revenue", tables=["a.b"], project=root), "tables= is for a job"),
        (
            lambda root: twice.run("revenue", date="2026-06-09", interval=("2026-06-09", "2026-06-10"), project=root),
            "a date and an interval were given",
        ),
        (
            lambda root: twice.run("revenue", interval=("2026-06-09", "tomorrow"), project=root),
            "'tomorrow' is not a date or time",
        ),
        (
            lambda root: twice.run("everything", interval=("2026-06-09", "2026-06-10"), project=root),
            "has no interval",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_spark_is_started(root: Path, call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(root)


def test_a_task_may_be_given_by_itself(root: Path) -> None:
    @twice.task("shop.revenue", scope=twice.Daily("day", start="2026-06-01"), inputs={}, write=twice.replace())
    def revenue(run: Any) -> None: ...

    assert twice.history(revenue, project=root) == ()


@pytest.mark.process
def test_looking_at_a_project_loads_no_spark(root: Path) -> None:
    code = "import sys, twice; twice.status(); twice.history('revenue'); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_prove_with_a_job_is_deprecated_and_names_prove_job(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("twice.project.prove.prove_job", lambda *given: asked.append(given))

    def job(session: Any, warehouse: Path) -> None: ...

    with pytest.warns(DeprecationWarning, match=r"twice\.prove_job\(job, tables=…\)"):
        twice.prove(job, tables=["shop.revenue"], scenarios=["twice"])
    assert asked == [(job, ("shop.revenue",), Path("warehouse"), ("twice",))]


def test_what_is_no_task_is_refused_with_what_to_give(root: Path) -> None:
    with pytest.raises(UsageError, match=r"a function is not a task. Give a task's name, or what @task"):
        twice.run(lambda: 1, date="2026-06-09", project=root)  # type: ignore[arg-type]
