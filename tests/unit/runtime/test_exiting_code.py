"""User code that says sys.exit(), as in a script: it has failed. The process goes on, and exit 0 would be untrue."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from twice import audit, call
from twice.core.backfill.plan import BackfillRequest
from twice.core.ledger.outbox import EffectState
from twice.core.task import Task
from twice.errors import UserCodeError
from twice.runtime.backfill.backfill import start
from twice.runtime.backfill.worker import Event, Stop, work
from twice.senders.call import CallSender
from twice.targets.memory.rows import Rows

from .conftest import Bench, revenue_task


def leaving(*_anything: Any, **_more: Any) -> Any:
    sys.exit(0)  # "nothing to do today"


def leaving_task(orders: Rows) -> Rows:
    sys.exit(0)


def effects_of(bench: Bench) -> list[EffectState]:
    return [effect.state for effect in bench.ledger.outbox.listed((), None, 10)]


def with_call(bench: Bench, receiver: Callable[..., Any], **options: Any) -> Task:
    bench.context = replace(bench.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    return bench.declare(replace(revenue_task(), effects=(call(receiver, keyed=False, name="announce", **options),)))


def test_a_task_that_exits_has_failed_and_leaves_no_open_attempt(bench: Bench) -> None:
    declared = bench.declare(revenue_task(leaving_task))
    with pytest.raises(UserCodeError, match=r"own code raised SystemExit: 0 \(test_exiting_code.*Leave out sys.exit"):
        bench.run(declared)
    assert bench.ledger.open_attempts() == ()


def test_a_slice_that_exits_does_not_end_its_backfill(bench: Bench) -> None:
    bench.declare(revenue_task(leaving_task))
    record, _ = start(bench.context, BackfillRequest("revenue", "2026-06-09", "2026-06-10", batch="off"))
    events: list[Event] = []
    work(bench.context, record.name, events.append, Stop.never())
    assert [event.kind for event in events] == ["failed", "failed"]


def test_an_audit_that_exits_publishes_nothing(bench: Bench) -> None:
    declared = bench.declare(revenue_task(audits=(audit.custom(leaving, name="seen"),)))
    with pytest.raises(UserCodeError, match="the audit seen raised SystemExit: 0"):
        bench.run(declared)
    assert bench.ledger.open_attempts() == ()


def test_a_call_that_exits_is_in_doubt_and_the_run_has_ended_well(bench: Bench) -> None:
    bench.run(with_call(bench, leaving))
    assert effects_of(bench) == [EffectState.IN_DOUBT]
    assert "SystemExit: 0" in (bench.ledger.outbox.listed((), None, 1)[0].why or "")


def test_a_probe_that_exits_is_no_answer(bench: Bench) -> None:
    declared = with_call(bench, leaving, probe=leaving)
    bench.run(declared)
    bench.run(declared)
    assert effects_of(bench) == [EffectState.IN_DOUBT]


def test_a_text_that_exits_cannot_be_rendered(bench: Bench) -> None:
    class Leaving(CallSender):
        compose = leaving

    declared = with_call(bench, leaving)
    bench.context = replace(bench.context, senders={"call": Leaving()})
    bench.run(declared)
    assert effects_of(bench) == [EffectState.DEAD]
