"""rebuild_ledger: a lost ledger rebuilt from what the targets remember. Their tokens are the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from twice.core.ledger.found import FoundPublish
from twice.core.ports import Held
from twice.core.table.token import SliceToken, token_name
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.table.provenance import catch_up, forget_effects, record_landed


@dataclass(frozen=True)
class RebuiltRecords:
    """How many slices of a task its target holds, and of how many there is no record any more of what they came from:
    these are computed again by their next run."""

    task: str
    slices: int
    unknown: int


def rebuild_ledger(context: RunContext, session: Any) -> tuple[RebuiltRecords, ...]:
    """Every declared task's runs, generations and marks, from the tokens of its target. A ledger that knows more keeps
    it: nothing is moved back. A second call changes nothing. Dying in here leaves the rest for the next call.

    An attempt that the ledger still knows, and that landed without reporting back, is recorded with what it learnt, and
    its effects are sent. What only a lost ledger knew is gone: rows, fingerprints, inputs, audits and the attempts that
    failed, and whether effects were sent: they are of unknown state, and none is sent by itself.
    """
    found = []
    for task in context.project.in_order():
        tokens = tokens_of(context, task, session)
        context.progress.begins("recording what it holds", task.name)
        known = {run.label: run for run in context.ledger.runs(task.name)}
        missed = {
            label: held
            for label, held in tokens.items()
            if label not in known or known[label].generation < held.generation
        }
        for label in [label for label, held in missed.items() if held.note and held.note.kind == "takeover"]:
            token = SliceToken(_name(context, task, label), label, missed.pop(label).generation)
            catch_up(context, task, context.target_of(task.target, session), token, known.get(label))
        # Nothing was ever sent for what was there before twice.
        missed = {label: held for label, held in missed.items() if not (held.note and held.note.kind == "adopt")}
        unseen = {label: held for label, held in missed.items() if not _recorded(context, task, held)}
        forget_effects(context, task, {label: held.generation for label, held in unseen.items()})
        publishes = [_publish_of(context, task, label, held) for label, held in tokens.items()]
        context.ledger.record_found(task.name, publishes)
        unknown = sum(slice_.intention is None for slice_ in publishes)
        found.append(RebuiltRecords(task.name, len(publishes), unknown))
    return tuple(found)


def _recorded(context: RunContext, task: Task, held: Held) -> bool:
    """Whether this ledger knows the attempt that a commit names; its publish is recorded now, if it was not yet."""
    ours = None if held.note is None else context.ledger.attempt(held.note.attempt)
    if held.note is None or ours is None or ours.task != task.name or ours.never_looked:
        return False
    record_landed(context, task, ours, replace(held.note, version=held.version))
    return True


def tokens_of(context: RunContext, task: Task, session: Any) -> Mapping[str, Held]:
    """By label: what the task's target says was published."""
    context.progress.begins("reading the table's tokens", task.name)
    prefix = _name(context, task, "")
    tokens = context.target_of(task.target, session).tokens(task.target, prefix)
    return {name.removeprefix(prefix): held for name, held in tokens.items()}


def _publish_of(context: RunContext, task: Task, label: str, held: Held) -> FoundPublish:
    if held.note is None:
        return FoundPublish(label, held.generation)
    intention = held.note.intentions.get(_name(context, task, label))
    return FoundPublish(label, held.generation, held.note.attempt, intention, held.version)


def _name(context: RunContext, task: Task, label: str) -> str:
    return token_name(context.project.id, task.first_name, label)
