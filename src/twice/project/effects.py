"""Effects of an opened project: what was sent, what waits, and a person's decision on what is in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.core.ledger.outbox import EffectEvent, EffectRecord, EffectState
from twice.errors import UsageError
from twice.runtime.effects import send as sending
from twice.runtime.effects.delivery import drain, render_released
from twice.runtime.effects.send import EffectDecision
from twice.wiring.open_project import OpenProject

if TYPE_CHECKING:
    from twice.ledgers.ledger import Ledger


def effects(
    opened: OpenProject, states: tuple[EffectState, ...], task: str | None, limit: int, environment: str | None = None
) -> tuple[EffectRecord, ...]:
    """In one of these states (none: in any), newest first. `environment`: of another one of this project."""
    name = opened.task_name(task) if task else None
    return _ledger(opened, environment).outbox.listed(states, name, limit)


def counts(opened: OpenProject, task: str | None, environment: str | None = None) -> Mapping[EffectState, int]:
    return _ledger(opened, environment).outbox.counts(task)


def effect(
    opened: OpenProject, id_: int, environment: str | None = None
) -> tuple[EffectRecord, tuple[EffectEvent, ...]]:
    """One, with every step it took."""
    outbox = _ledger(opened, environment).outbox
    found = outbox.find(id_)
    if found is None:
        raise UsageError(f"there is no effect {id_}", fix="See them: twice effects list.")
    return found, outbox.events(id_)


def send(opened: OpenProject, task: str | None, wait: timedelta) -> int:
    """Send what waits; how many tries were made."""
    name = opened.project.task(task).name if task else None
    render_released(opened.delivery, name)
    return drain(opened.delivery, name, wait)


def resolve(opened: OpenProject, id_: int, decision: EffectDecision, environment: str | None = None) -> EffectRecord:
    """A person decides what became of an effect in doubt. Who, when and why is kept. Of another environment only that
    nothing is to be sent any more: what is sent there goes out by its own settings."""
    ledger = _ledger(opened, environment)
    if ledger is not opened.ledger and decision.resolution == "resend":
        raise UsageError(
            f"an effect of {environment} is not sent from another environment",
            now="Nothing was changed.",
            fix="Use --sent or --abandon; or --resend under the settings of that environment.",
        )
    return sending.resolve(replace(opened.delivery, ledger=ledger), id_, decision)


def _ledger(opened: OpenProject, environment: str | None) -> Ledger:
    if environment is None or environment in opened.ledger.owner.environments:
        return opened.ledger
    return opened.ledger.of_environment(environment)
