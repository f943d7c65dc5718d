"""takeover: a person gives a table to another task than the one whose slices it holds."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from twice.core.ports import Landed, Lost, Target
from twice.core.slice import WHOLE
from twice.core.table.owner import LAST_TAKEOVER, Owner, owner_of, takeover_token
from twice.core.table.token import CommitNote, token_name
from twice.core.task import Task
from twice.core.write import AppendRows, WritePlan
from twice.errors import Superseded, UsageError
from twice.runtime.context import RunContext
from twice.runtime.run.commit import commit
from twice.runtime.run.landing import Landing, Wording, settling
from twice.runtime.table.owner import describe_owner
from twice.runtime.table.taken_back import moved_by_takeover
from twice.runtime.upkeep.human_decision import HumanDecision

_WORDING = Wording(
    landed="taken over",
    done="the table is taken over",
    doing="the table was being taken over",
    holds="The table is this task's.",
    may_hold="The table may already be this task's.",
    next_look="The table records its owner.",
)


def other_owners_of(context: RunContext, task: Task) -> Mapping[str, int]:
    """The other tasks that own slices of the table, described for people, and how many slices each. Changes nothing."""
    return {
        describe_owner(context.project.id, other): count for other, count in _other_owners(context, task)[1].items()
    }


def take_over(context: RunContext, task: Task, decision: HumanDecision) -> Mapping[str, int]:
    """Give the table to this task; whose slices it held, and how many. No row is touched. A second call finds nothing
    to take over.

    One commit of tokens alone for each of the others, by compare-and-swap. What the task has published there itself
    moves on by one generation without a record of its inputs: the others may have written over it, so its next
    run computes it again, where its strategy can. What landed is recorded, whatever ends it. Dying in here has taken
    over from some of them, as the table says; the ledger's record of the last one may be missing.
    """
    target, other_owners = _other_owners(context, task)
    for other, count in other_owners.items():
        slices = f"{count:,} slice{'' if count == 1 else 's'}"
        why = f"{task.target} taken over from {describe_owner(context.project.id, other)} ({slices}) by {decision.by}: "
        _commit(context, task, target, other, why + decision.reason)
    return {describe_owner(context.project.id, other): count for other, count in other_owners.items()}


def _other_owners(context: RunContext, task: Task) -> tuple[Target, dict[Owner, int]]:
    context.progress.begins("reading whose the table is", task.name)
    target = context.target_of(task.target, context.engine.fresh())
    me = owner_of(context.project.id, task)
    published = target.published(task.target, (token_name(me.project, me.task, ""),))
    if published.version is None:
        raise UsageError(f"there is no table {task.target}, so there is nothing to take over", where=task.name)
    return target, published.owners.other_owners(me)


def _commit(context: RunContext, task: Task, target: Target, other: Owner, why: str) -> None:
    """Dying in here has taken over or not."""
    context.progress.begins("taking the table over", task.name)
    attempt = uuid.uuid4().hex
    me = owner_of(context.project.id, task)
    token = takeover_token(me, other)
    mine = _mine(target, task, me) if moved_by_takeover(task) else ()
    names = (token, LAST_TAKEOVER, *mine)
    before = target.published(task.target, names)
    slices = tuple(replace(WHOLE, label=name) for name in names)
    staged = target.stage(task.target, None, WritePlan(AppendRows(slices), slices, names), attempt)
    moved = {name: generation + 1 for name, generation in before.generations.items()}
    moved[token] = moved[LAST_TAKEOVER] = before.owners.next_takeover
    landing = Landing(
        task.name, lambda *_: context.ledger.record_takeover(task.name, attempt, context.holder, why), _WORDING
    )
    with settling(landing):
        end = commit(landing, target, staged, before.generations, CommitNote(attempt, "takeover", moved, why=why))
        if isinstance(end, Landed):
            landing.record()
            landing.remove_unused()
    if isinstance(end, Lost):
        raise Superseded(
            "the table's slices were published, or it was taken over, meanwhile",
            where=task.name,
            now=f"It was not taken over from {describe_owner(context.project.id, other)}.",
            fix="Let the runs on it end, then take it over again.",
        )


def _mine(target: Target, task: Task, me: Owner) -> tuple[str, ...]:
    return tuple(target.tokens(task.target, token_name(me.project, me.task, "")))
