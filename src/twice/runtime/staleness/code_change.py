"""Which part of a task's code is another than what its slices were published from. Only words: whether it is, the
hashes say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from twice.core.ledger.code_parts import CodeParts, TaskCode, describe_change
from twice.core.ports import CodeRecords
from twice.core.table.token import Intention
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.staleness.decide import SliceState


def code_changes(
    ledger: CodeRecords, task: Task, code: TaskCode, published: Iterable[Intention | None]
) -> Mapping[str, str]:
    """What became other since, by the hash of each published code that is not the one of now. The ledger is asked only
    where there is such code."""
    others = sorted({each.code for each in published if each is not None and not each.adopted} - {code.hash})
    known = ledger.code_parts(task.name, others) if others else {}
    now = code.parts() if known else {}
    return {other: describe_change(known.get(other, {}), now) for other in others}


def naming_changes(context: RunContext, task: Task, states: Sequence[SliceState]) -> list[SliceState]:
    """What is known of these slices, and how the code of each is another."""
    code = TaskCode(states[0].present.code, lambda: context.code_parts(task))
    found = code_changes(context.ledger, task, code, (state.published for state in states))
    return [
        state if state.published is None else replace(state, code_change=found.get(state.published.code))
        for state in states
    ]


def parts_to_keep(context: RunContext, task: Task, intentions: Iterable[Intention | None]) -> Mapping[str, CodeParts]:
    """What the task's code of now is made of, by its hash, to be kept with slices of these intentions: what was made by
    other code (of before a rebuild was interrupted, say) is made of what nobody knows."""
    code = context.code_hash(task)
    return {code: context.code_parts(task)} if any(each and each.code == code for each in intentions) else {}
