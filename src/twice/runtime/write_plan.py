"""The write plan, the first step of a run: which slices, which write verb, which tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twice.core.scope import cut_of
from twice.core.slice import Slice
from twice.core.table.owner import LAST_TAKEOVER, last_cut_token, owner_of
from twice.core.table.token import SliceToken, token_name
from twice.core.task import Task
from twice.core.write import Cut, Layout, WritePlan


def make_write_plan(project: str, task: Task, slices: tuple[Slice, ...]) -> WritePlan:
    token_names = tuple(token_name(project, task.first_name, slice_.label) for slice_ in slices)
    if task.write.layout(task.scope).slice_column is None:
        # The scope cuts the inputs alone: its slices own no rows of the table.
        slices = tuple(replace(slice_, bounds=None) for slice_ in slices)
    watched = (LAST_TAKEOVER, last_cut_token(owner_of(project, task)))
    return WritePlan(task.write.compile(slices), slices, token_names, watched=watched)


def layout_of(project: str, task: Task) -> Layout:
    """What the task's writes need of its table. Rows without a key are identified by their slice alone: how they were
    cut must be remembered, or a redeclared scope would append them again under other labels."""
    layout = task.write.layout(task.scope)
    if task.write.kind != "append":
        return layout
    return replace(layout, cut=Cut(f"{project}/{task.first_name}", cut_of(task.scope)))


def tokens_in(plan: WritePlan, generations: Mapping[str, int]) -> tuple[SliceToken, ...]:
    """The write plan's tokens with the generations that the target holds, by token name."""
    return tuple(
        SliceToken(name, slice_.label, generations[name])
        for name, slice_ in zip(plan.token_names, plan.slices, strict=True)
    )
