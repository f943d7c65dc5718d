"""plan: the first step of a run, pure: which slices, which write verb, which tokens."""

from __future__ import annotations

from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.token import app_id
from twice.core.write import Plan


def make_plan(project: str, task: Task, slices: tuple[Slice, ...]) -> Plan:
    app_ids = tuple(app_id(project, task.name, slice_.label) for slice_ in slices)
    return Plan(task.write.compile(slices), slices, app_ids)
