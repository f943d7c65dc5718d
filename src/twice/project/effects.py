"""Effects of an opened project: what was sent, what waits, and a person's decision on what is in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from twice.core.ledger.outbox import EffectEvent, EffectRecord, EffectState
from twice.errors import UsageError
from twice.runtime.effects import send as sending
from twice.runtime.effects.delivery import drain, render_released
from twice.runtime.effects.send import EffectDecision
from twice.wiring.open_project import OpenProject


def effects(
    opened: OpenProject, states: tuple[EffectState, ...], task: str | None, limit: int
) -> tuple[EffectRecord, ...]:
    """In one of these states (none: in any), newest first."""
    name = opened.project.task(task).name if task else None
    return opened.ledger.outbox.listed(states, name, limit)


def counts(opened: OpenProject, task: str | None) -> Mapping[EffectState, int]:
    return opened.ledger.outbox.counts(task)


def effect(opened: OpenProject, id_: int) -> tuple[EffectRecord, tuple[EffectEvent, ...]]:
    """One, with every step it took."""
    found = opened.ledger.outbox.find(id_)
    if found is None:
        raise UsageError(f"there is no effect {id_}", fix="See them: twice effects list.")
    return found, opened.ledger.outbox.events(id_)


def send(opened: OpenProject, task: str | None, wait: timedelta) -> int:
    """Send what waits; how many tries were made."""
    name = opened.project.task(task).name if task else None
    render_released(opened.delivery, name)
    return drain(opened.delivery, name, wait)


def resolve(opened: OpenProject, id_: int, decision: EffectDecision) -> EffectRecord:
    """A person decides what became of an effect in doubt. Who, when and why is kept."""
    return sending.resolve(opened.delivery, id_, decision)
