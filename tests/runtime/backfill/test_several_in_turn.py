"""`backfill` of several tasks, by the command line's own code on plain rows: one after another, each slice once."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, RuntimeSetup

from twice import Daily, read, task
from twice import replace as replace_rows
from twice.cli.backfill_several import Several
from twice.cli.backfill_work import Stream
from twice.core.backfill.plan import BackfillRequest
from twice.core.project.project import Project, assemble
from twice.core.task import Task
from twice.errors import EnvironmentProblem
from twice.runtime.backfill.several import Range, requests_of
from twice.runtime.context import RunContext

JUNE = Range(DAY.isoformat(), NEXT.isoformat())
STALE = ("stale",)


@dataclass
class Opened:
    """As much of an open project as backfills need."""

    context: RunContext

    @property
    def project(self) -> Project:
        return self.context.project

    @property
    def ledger(self) -> Any:
        return self.context.ledger

    def quickly(self) -> AbstractContextManager[None]:
        return nullcontext()


def copying(name: str, source: str, fails: list[BaseException] | None = None) -> Task:
    def copied(rows: Any) -> Any:
        if fails:
            raise fails[0]
        return rows

    inputs = {"rows": read(source, by="order_date")}
    return task(
        f"shop.{name}", name=name, scope=Daily("order_date", start="2026-01-01"), write=replace_rows(), inputs=inputs
    )(copied)


def several(
    runtime: RuntimeSetup, *tasks: Task, range_: Range = JUNE, output: Stream = Stream.json, **options: Any
) -> Several:
    opened = Opened(replace(runtime.context, project=assemble("p", tasks)))
    requests = requests_of(runtime.ledger, opened.project.in_order(), range_, partial(BackfillRequest, **options))
    return Several(opened, requests, 1, output)  # type: ignore[arg-type]


def slices(ends: Any) -> dict[str, list[str]]:
    return {end["task"]: [each["label"][-2:] for each in (end["backfill"] or {"slices": []})["slices"]] for end in ends}


def test_what_a_task_makes_stale_below_is_made_in_its_turn_and_once(
    runtime: RuntimeSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = copying("above", "shop.orders"), copying("below", "shop.above")
    assert several(runtime, *tasks).work() == 0
    assert slices(json.loads(capsys.readouterr().out)["tasks"]) == {"above": ["09", "10"], "below": ["09", "10"]}
    runtime.put_orders((1, DAY, 11), (2, DAY, 5), (3, NEXT, 7))
    asked = partial(several, runtime, *tasks, range_=Range(), only=STALE)
    assert asked().show() == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert [plan["request"]["task"] for plan in plans] == ["above", "below"]
    assert plans[0]["slices"]
    assert asked().work() == 0
    made = slices(json.loads(capsys.readouterr().out)["tasks"])
    assert made["below"] == made["above"] != []
    attempts = [len(runtime.ledger.attempts(name, "2026-06-09")) for name in ("above", "below")]
    assert attempts == [2, 2], "each slice was computed once more, not twice"
    assert asked(output=Stream.text).work() == 0
    assert capsys.readouterr().out.splitlines() == [
        "above: nothing to do",
        "below: nothing to do",
        "2 of 2 tasks are done",
    ]


def test_a_task_is_not_begun_while_one_it_reads_from_is_not_complete(
    runtime: RuntimeSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = copying("above", "shop.orders", [ValueError("no")])
    tasks = broken, copying("below", "shop.above"), copying("lower", "shop.below"), copying("other", "shop.orders")
    assert several(runtime, *tasks, output=Stream.text).work() == 1
    out = capsys.readouterr().out
    assert "below: not begun, because above is not complete" in out
    assert "lower: not begun, because below is not complete" in out
    assert out.splitlines()[-1] == "1 of 4 tasks are done"
    assert not runtime.ledger.attempts("below")
    assert len(runtime.ledger.attempts("other")) == 2


def test_an_outage_ends_them_all_with_one_document(runtime: RuntimeSetup, capsys: pytest.CaptureFixture[str]) -> None:
    away = copying("below", "shop.above", [EnvironmentProblem("no room on the disk")])
    assert several(runtime, copying("above", "shop.orders"), away).work() == 4
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"]["code"] == "environment"
    assert slices(answer["tasks"]) == {"above": ["09", "10"]}


def test_an_interrupt_begins_no_other(runtime: RuntimeSetup, capsys: pytest.CaptureFixture[str]) -> None:
    stops = copying("above", "shop.orders", [KeyboardInterrupt()])
    assert several(runtime, stops, copying("below", "shop.above")).work() == 130
    assert json.loads(capsys.readouterr().out)["tasks"] == []
    assert not runtime.ledger.attempts("below")
    assert not runtime.ledger.open_attempts()


def test_lines_of_json_name_what_was_not_begun(runtime: RuntimeSetup, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = copying("above", "shop.orders", [ValueError("no")]), copying("below", "shop.above")
    assert several(runtime, *tasks, output=Stream.jsonl).work() == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["failed", "failed", "end", "task"]
    assert (lines[-1]["task"], lines[-1]["waits_for"]) == ("below", "above")
