"""What `twice status` knows of each task from the ledger alone, and what of the last look still counts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.processes.ended import ended_process
from typer.testing import CliRunner

from twice.cli.main import app
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts, SliceRecord
from twice.core.results.status import TaskStatus
from twice.core.table.token import Intention
from twice.project import status
from twice.runtime.holder import this_process
from twice.wiring.open_project import OpenProject, open_project

TASKS = """
from twice import Daily, Every, Since, Whole, append_once, read, replace, task

DAILY = Daily("day", start="2026-06-01")

@task("shop.orders", scope=DAILY, write=replace())
def orders(run): ...

@task("shop.revenue", scope=DAILY, inputs={"orders": read("shop.orders", by="day")}, write=replace())
def revenue(orders): ...

@task("shop.all", scope=Whole(), inputs={"revenue": read("shop.revenue")}, write=replace())
def everything(revenue): ...

@task("shop.feed", scope=Since("id", initial=0), inputs={"source": read("shop.source", by="id")}, write=append_once())
def feed(source): ...

@task("shop.clicks", scope=Every("at", start="2026-06-01T00:00"), write=replace())
def clicks(run): ...
"""
HOUR = timedelta(hours=1)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "twice.toml").write_text('project = "p"\n[profiles.prod]\nwarehouse = "prod"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.py").write_text(TASKS)
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)

    def started(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    return tmp_path


@pytest.fixture
def opened(project: Path) -> Iterator[OpenProject]:
    with open_project(project) as one:
        yield one


def claim(opened: OpenProject, task: str, label: str, id_: str | None = None, holder: str = "me") -> Claim:
    found = opened.ledger.claim(ClaimRequest(task, [label], id_ or f"{task}-{label}", "run", holder), HOUR)
    assert isinstance(found, Claim)
    return found


def publish(opened: OpenProject, task: str, *labels: str, code: str | None = None) -> None:
    """By the code of now, if no other is given."""
    declared = opened.project.tasks.get(task)
    now = "gone" if declared is None else opened.code_hash(declared)
    for label in labels:
        held = claim(opened, task, label)
        opened.ledger.fix(held, {label: 0})
        made = SliceRecord(label, intention=Intention(code or now, "inputs"), rows=3)
        opened.ledger.publish(held.attempt, Facts(slices=(made,), version=1), generations={label: 1})


def fail(opened: OpenProject, task: str, label: str) -> None:
    held = claim(opened, task, label, f"failed-{label}")
    opened.ledger.close_attempt(held.attempt, AttemptState.REJECTED, Facts(error={"what": "audit rows failed"}))


def at_a_glance(opened: OpenProject, task: str | None = None) -> dict[str, TaskStatus]:
    return {each.task: each for each in status.status(opened, task, 50).tasks}


def test_each_task_has_its_newest_slice_and_what_is_missing_failed_or_running(opened: OpenProject) -> None:
    publish(opened, "orders", "2026-06-02", "2026-06-05")
    fail(opened, "orders", "2026-06-03")
    claim(opened, "orders", "2026-06-06", holder=this_process())
    found = at_a_glance(opened)["orders"]
    assert (found.scope, found.newest, found.published) == ("daily", "2026-06-05", 2)
    assert found.missing == {"2026-06-01": "never published", "2026-06-04": "never published"}
    assert found.failed == {"2026-06-03": "rejected: audit rows failed"}
    assert (found.running, found.silent, found.stale, found.looked) == (("2026-06-06",), (), {}, None)


@pytest.fixture(scope="module")
def gone() -> str:
    """Before no process may be started."""
    return ended_process()


def test_what_a_killed_process_left_is_not_running(gone: str, opened: OpenProject) -> None:
    claim(opened, "orders", "2026-06-01", holder=gone)
    found = at_a_glance(opened)["orders"]
    assert (found.running, found.silent) == ((), ("2026-06-01",))


def test_tasks_are_in_the_order_of_the_graph_and_then_those_that_are_gone(opened: OpenProject) -> None:
    publish(opened, "aged", "2026-06-01")
    tasks = at_a_glance(opened)
    assert list(tasks)[-1] == "aged"
    assert list(tasks)[:-1] == [each.name for each in opened.project.in_order()]
    assert (tasks["aged"].scope, tasks["aged"].newest, tasks["aged"].published) == (None, "2026-06-01", 1)
    assert {name: each.scope for name, each in tasks.items()} == {
        "orders": "daily",
        "revenue": "daily",
        "everything": "whole",
        "feed": "since",
        "clicks": "every 15 min",
        "aged": None,
    }


@pytest.mark.parametrize("named", [None, "revenue"])
def test_a_day_that_an_input_has_and_the_task_has_not_is_missing(opened: OpenProject, named: str | None) -> None:
    publish(opened, "orders", "2026-06-01", "2026-06-02", "2026-06-03")
    publish(opened, "revenue", "2026-06-01")
    found = at_a_glance(opened, named)
    assert list(found["revenue"].missing) == ["2026-06-02", "2026-06-03"]
    assert named is None or list(found) == ["revenue"]
    assert named or found["everything"].missing == {}, "it reads the whole table: nothing says what it lacks"


def test_an_incremental_task_shows_its_mark_as_the_newest(opened: OpenProject) -> None:
    held = claim(opened, "feed", "since")
    opened.ledger.fix(held, {"since": 0}, {"since": 2**62 + 7})
    opened.ledger.publish(held.attempt, Facts(version=1), generations={"since": 2**62 + 7})
    assert at_a_glance(opened)["feed"].newest == "7"


def seen(opened: OpenProject, label: str, status: Any = "stale", task: str = "orders") -> SeenSlice:
    run = opened.ledger.run(task, label)
    assert run is not None
    return SeenSlice(label, status, "its input changed", run.generation, run.attempt, run.last_attempt)


def look(opened: OpenProject, *found: SeenSlice, code: str | None = None) -> Look:
    now = opened.code_hash(opened.project.task("orders"))
    made = Look("orders", opened.ledger.now(), code or now, 3, found)
    opened.ledger.record_look(made)
    return made


def test_what_the_last_look_found_is_shown_with_its_time_until_the_slice_is_tried(opened: OpenProject) -> None:
    publish(opened, "orders", "2026-06-01", "2026-06-02", "2026-06-03")
    made = look(opened, seen(opened, "2026-06-01"), seen(opened, "2026-06-02"), seen(opened, "2026-06-03", "missing"))
    found = at_a_glance(opened)["orders"]
    assert (found.looked, found.looked_at_this_code) == (made.at, True)
    assert (found.published, found.missing) == (2, {"2026-06-03": "its input changed"})
    assert found.stale == {"2026-06-01": "its input changed", "2026-06-02": "its input changed"}
    assert status.status(opened, None, 50).stale == {("orders", label): "its input changed" for label in found.stale}
    claim(opened, "orders", "2026-06-01", "again")
    opened.ledger.publish("again", Facts(version=2), generations={"2026-06-01": 2})
    claim(opened, "orders", "2026-06-02", "same")
    opened.ledger.close_attempt("same", AttemptState.UNCHANGED)
    assert at_a_glance(opened)["orders"].stale == {}


def test_a_look_at_other_code_counts_for_nothing(opened: OpenProject) -> None:
    publish(opened, "orders", "2026-06-01")
    look(opened, seen(opened, "2026-06-01"), code="other")
    found = at_a_glance(opened)["orders"]
    assert (found.stale, found.looked_at_this_code) == ({}, False)


def test_where_the_ledger_knows_a_reason_of_now_it_is_shown_before_that_of_the_look(opened: OpenProject) -> None:
    publish(opened, "orders", "2026-06-01", "2026-06-02", code="other")
    look(opened, seen(opened, "2026-06-01"))
    (why,) = set(at_a_glance(opened)["orders"].stale.values())
    assert why.startswith("the code") and "its input" not in why


def test_another_environment_sees_nothing_of_a_look(opened: OpenProject, project: Path) -> None:
    publish(opened, "orders", "2026-06-01")
    look(opened, seen(opened, "2026-06-01"))
    with open_project(project, "prod") as prod:
        assert at_a_glance(prod)["orders"].looked is None


def test_json_has_the_keys_it_had_and_the_tasks_and_slices_beside_them(opened: OpenProject) -> None:
    publish(opened, "orders", "2026-06-02")
    fail(opened, "orders", "2026-06-03")
    made = look(opened, seen(opened, "2026-06-02"))
    answer = CliRunner().invoke(app, ["status", "-o", "json"])
    data = json.loads(answer.stdout)
    assert answer.exit_code == 1
    before = {"schema_version", "runs", "total", "failed", "stale", "effects", "proofs"}
    assert set(data) == before | {"tasks", "slices", "not_looked_at"}
    assert (data["total"], data["failed"], data["stale"]) == (2, 1, 1)
    assert [(run["label"], run["stale"]) for run in data["runs"]] == [
        ("2026-06-02", "its input changed"),
        ("2026-06-03", None),
    ]
    (orders,) = (each for each in data["tasks"] if each["task"] == "orders")
    assert orders == {
        "task": "orders",
        "scope": "daily",
        "newest": "2026-06-02",
        "published": 1,
        "missing": 1,
        "failed": 1,
        "stale": 1,
        "running": 0,
        "silent": 0,
        "proved": False,
        "looked": made.at.isoformat(),
        "looked_at_this_code": True,
    }
    missing = [("orders", "2026-06-01", "missing"), ("revenue", "2026-06-01", "missing")]
    missing += [("revenue", "2026-06-02", "missing")]
    listed = [(each["task"], each["label"], each["status"]) for each in data["slices"]]
    assert sorted(listed) == sorted([*missing, ("orders", "2026-06-03", "failed"), ("orders", "2026-06-02", "stale")])
    only = json.loads(CliRunner().invoke(app, ["status", "orders", "--failed", "-o", "json"]).stdout)
    assert [(each["label"], each["why"]) for each in only["slices"]] == [("2026-06-03", "rejected: audit rows failed")]


def test_a_calendar_shows_every_state(project: Path) -> None:
    answer = CliRunner().invoke(app, ["status", "orders", "--calendar", "--stale"])
    assert answer.exit_code == 2
    assert "a calendar shows every state" in answer.stderr


def test_of_chosen_tasks_nothing_of_the_others_is_shown_or_counted(opened: OpenProject) -> None:
    publish(opened, "orders", "2026-06-02")
    publish(opened, "clicks", "2026-06-01T00:00")
    fail(opened, "revenue", "2026-06-02")
    runner = CliRunner()
    shown = json.loads(runner.invoke(app, ["status", "orders", "clicks", "-o", "json"]).stdout)
    assert {task["task"] for task in shown["tasks"]} == {"orders", "clicks"}
    assert {run["task"] for run in shown["runs"]} == {"orders", "clicks"}
    assert (shown["failed"], shown["total"]) == (0, 2)
    below = runner.invoke(app, ["status", "orders+", "-o", "json"])
    assert below.exit_code == 1, "revenue failed"
    assert [task["task"] for task in json.loads(below.stdout)["tasks"]] == ["orders", "revenue", "everything"]
