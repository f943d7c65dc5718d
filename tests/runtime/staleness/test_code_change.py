"""Which part of the code changed is said wherever it is the reason; what is done does not depend on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event
from tests.runtime.conftest import DAY, NEXT, RuntimeSetup, revenue_task

from twice import Outcome, append_once
from twice.core.ledger.code_parts import CODE_CHANGED, CodeParts
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.runtime.run.explain import explain
from twice.runtime.staleness.kept import not_right
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger

LABEL = "2026-06-09"
RATE_CHANGED = "the code changed: RATE in rates.py"


@pytest.fixture
def parts(runtime: RuntimeSetup) -> dict[str, CodeParts]:
    """Of the code of each version."""
    known: dict[str, CodeParts] = {
        "v1": {"write=": "1", "RATE in rates.py": "1"},
        "v2": {"write=": "1", "RATE in rates.py": "2"},
    }
    runtime.context = replace(runtime.context, code_parts=lambda _: known.get(runtime.code[0], {}))
    return known


@pytest.fixture
def declared(runtime: RuntimeSetup, parts: dict[str, CodeParts]) -> Task:
    assert parts
    return runtime.declare(revenue_task())


def said(runtime: RuntimeSetup, declared: Task) -> set[str]:
    """By status, by a backfill's plan and by `plan`."""
    slice_ = slice_named(declared.scope, LABEL)
    found = not_right(runtime.context.project, runtime.ledger, declared, runtime.context.code_of(declared))
    planned = slice_statuses(runtime.context, declared, (slice_,), None)
    explained = explain(runtime.context, declared, slice_)
    return {*(each.why for each in found), *(each.why for each in planned), explained.why}


def test_the_part_that_changed_is_named_by_status_backfill_plan_and_run(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared)
    runtime.code[0] = "v2"
    assert said(runtime, declared) == {RATE_CHANGED}
    assert runtime.run(declared).why == RATE_CHANGED
    assert runtime.ledger.attempts("revenue")[0].why == RATE_CHANGED  # what `history` shows


def test_where_there_is_no_record_the_reason_stays_general(
    runtime: RuntimeSetup, declared: Task, parts: dict[str, CodeParts]
) -> None:
    held = parts.pop("v1")
    runtime.run(declared)
    runtime.code[0] = "v2"
    assert said(runtime, declared) == {CODE_CHANGED}
    assert runtime.run(declared).why == CODE_CHANGED
    parts.clear()
    parts["v1"] = held
    runtime.code[0] = "v3"
    assert said(runtime, declared) == {CODE_CHANGED}


def test_a_run_that_finds_its_slice_unchanged_brings_a_record_that_is_missing(
    runtime: RuntimeSetup, declared: Task, parts: dict[str, CodeParts]
) -> None:
    """What an earlier version of twice published, or what is left of it in a ledger that was rebuilt."""
    held = parts.pop("v1")
    runtime.run(declared)
    parts["v1"] = held
    assert runtime.run(declared).outcome is Outcome.ALREADY
    runtime.code[0] = "v2"
    assert said(runtime, declared) == {RATE_CHANGED}


def test_a_rebuilt_ledger_knows_no_part(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared)
    assert runtime.ledger.code_parts("revenue", ["v1"])
    with runtime.ledger._engine.begin() as connection:
        for table in ("twice_code_parts", "twice_runs"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    rebuild_ledger(runtime.context, None)
    runtime.code[0] = "v2"
    assert said(runtime, declared) == {CODE_CHANGED}


def test_other_code_and_other_inputs_are_both_named(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared)
    runtime.code[0] = "v2"
    runtime.put_orders((1, DAY, 10), (2, DAY, 6), (3, NEXT, 7))
    assert runtime.run(declared).why == f"{RATE_CHANGED}, and its inputs changed"


def test_what_is_appended_stays_and_says_which_part_changed(runtime: RuntimeSetup, declared: Task) -> None:
    appending = runtime.declare(replace(declared, write=append_once()))
    runtime.run(appending)
    runtime.code[0] = "v2"
    again = runtime.run(appending)
    assert (again.outcome, again.notes) == (
        Outcome.ALREADY,
        (f"what was appended stays, although {RATE_CHANGED}",),
    )
    # What stays by policy is not of this code: its parts are nobody's.
    assert list(runtime.ledger.code_parts("revenue", ["v1", "v2"])) == ["v1"]


def test_an_unchanged_run_makes_no_transaction_more(runtime: RuntimeSetup, declared: Task) -> None:
    plain = replace(runtime.context, code_parts=lambda _: {})
    runtime.run(declared)
    begun: list[object] = []
    event.listen(runtime.ledger._engine, "begin", begun.append)
    counts = []
    for context in (runtime.context, plain):
        runtime.context = context
        begun.clear()
        assert runtime.run(declared).outcome is Outcome.ALREADY
        counts.append(len(begun))
    assert counts[0] == counts[1] > 0


def test_pruning_keeps_what_a_later_reason_needs(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared)
    runtime.code[0] = "v2"
    runtime.run(declared)
    runtime.clock.ahead = timedelta(days=400)
    runtime.ledger.prune(runtime.clock.now() - timedelta(days=1))
    assert list(runtime.ledger.code_parts("revenue", ["v1", "v2"])) == ["v2"]
    runtime.code[0] = "v1"
    assert said(runtime, declared) == {RATE_CHANGED}
