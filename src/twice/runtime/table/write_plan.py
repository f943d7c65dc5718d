"""plan: the first step of a run, pure: which slices, which write verb, which tokens."""

from __future__ import annotations

from dataclasses import replace

from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.token import token_name
from twice.core.write import Plan


def make_plan(project: str, task: Task, slices: tuple[Slice, ...]) -> Plan:
    token_names = tuple(token_name(project, task.first_name, slice_.label) for slice_ in slices)
    if task.write.layout(task.scope).slice_column is None:
        # The scope cuts the inputs alone: its slices own no rows of the table.
        slices = tuple(replace(slice_, bounds=None) for slice_ in slices)
    return Plan(task.write.compile(slices), slices, token_names)
