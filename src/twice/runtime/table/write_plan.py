"""The write plan, the first step of a run: which slices, which write verb, which tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twice.core.slice import Slice
from twice.core.table.token import SliceToken, token_name
from twice.core.task import Task
from twice.core.write import Plan


def make_write_plan(project: str, task: Task, slices: tuple[Slice, ...]) -> Plan:
    token_names = tuple(token_name(project, task.first_name, slice_.label) for slice_ in slices)
    if task.write.layout(task.scope).slice_column is None:
        # The scope cuts the inputs alone: its slices own no rows of the table.
        slices = tuple(replace(slice_, bounds=None) for slice_ in slices)
    return Plan(task.write.compile(slices), slices, token_names)


def tokens_in(plan: Plan, generations: Mapping[str, int]) -> tuple[SliceToken, ...]:
    """The write plan's tokens with the generations that the target holds, by token name."""
    return tuple(
        SliceToken(name, slice_.label, generations[name])
        for name, slice_ in zip(plan.token_names, plan.slices, strict=True)
    )
