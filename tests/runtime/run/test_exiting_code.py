"""User code that says sys.exit(), as in a script: it has failed. The process goes on, and exit 0 would be untrue."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup, revenue_task
from tests.runtime.starting import start

from twice import audit, call
from twice.core.backfill.plan import BackfillRequest
from twice.core.ledger.outbox import EffectState
from twice.core.task import Task
from twice.errors import UserCodeError
from twice.runtime.backfill.worker import Event, Stop, work
from twice.senders.call import CallSender
from twice.targets.memory.rows import Rows


def leaving(*_anything: Any, **_more: Any) -> Any:
    sys.exit(0)  # "nothing to do today"


def leaving_task(orders: Rows) -> Rows:
    sys.exit(0)


def effects_of(runtime: RuntimeSetup) -> list[EffectState]:
    return [effect.state for effect in runtime.ledger.outbox.listed((), None, 10)]


def with_call(runtime: RuntimeSetup, receiver: Callable[..., Any], **options: Any) -> Task:
    runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    return runtime.declare(replace(revenue_task(), effects=(call(receiver, keyed=False, name="announce", **options),)))


def test_a_task_that_exits_has_failed_and_leaves_no_open_attempt(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task(leaving_task))
    with pytest.raises(UserCodeError, match=r"own code raised SystemExit: 0 \(test_exiting_code.*Leave out sys.exit"):
        runtime.run(declared)
    assert runtime.ledger.open_attempts() == ()


def test_a_slice_that_exits_does_not_end_its_backfill(runtime: RuntimeSetup) -> None:
    runtime.declare(revenue_task(leaving_task))
    record, _ = start(runtime.context, BackfillRequest("revenue", "2026-06-09", "2026-06-10", batch="off"))
    events: list[Event] = []
    work(runtime.context, record.name, events.append, Stop.never())
    assert [event.kind for event in events] == ["failed", "failed"]


def test_an_audit_that_exits_publishes_nothing(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task(audits=(audit.custom(leaving, name="seen"),)))
    with pytest.raises(UserCodeError, match="the audit seen raised SystemExit: 0"):
        runtime.run(declared)
    assert runtime.ledger.open_attempts() == ()


def test_a_call_that_exits_is_in_doubt_and_the_run_has_ended_well(runtime: RuntimeSetup) -> None:
    runtime.run(with_call(runtime, leaving))
    assert effects_of(runtime) == [EffectState.IN_DOUBT]
    assert "SystemExit: 0" in (runtime.ledger.outbox.listed((), None, 1)[0].why or "")


def test_a_probe_that_exits_is_no_answer(runtime: RuntimeSetup) -> None:
    declared = with_call(runtime, leaving, probe=leaving)
    runtime.run(declared)
    runtime.run(declared)
    assert effects_of(runtime) == [EffectState.IN_DOUBT]


def test_a_text_that_exits_cannot_be_rendered(runtime: RuntimeSetup) -> None:
    class Leaving(CallSender):
        compose = leaving

    declared = with_call(runtime, leaving)
    runtime.context = replace(runtime.context, senders={"call": Leaving()})
    runtime.run(declared)
    assert effects_of(runtime) == [EffectState.DEAD]
