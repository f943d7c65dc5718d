"""A table has one task: one that holds another's slices is refused before anything is computed for it.

A task that was renamed finds none of its slices under its new name. Without this look it would append them all again.
"""

from __future__ import annotations

from twice.core.table.owner import Owner, Ownership, owner_of
from twice.core.task import Task
from twice.errors import UNCHANGED, TableTaken
from twice.runtime.table.cut import refusal_of_cut


def refuse_taken(project: str, task: Task, owners: Ownership) -> None:
    """Raise TableTaken if others have published slices of the task's table that it did not take over, or have taken
    the table over from it; or if the task itself has appended slices that are cut differently."""
    refusal = refusal_of(project, task, owners)
    if refusal is not None:
        raise refusal


def refusal_of(project: str, task: Task, owners: Ownership) -> TableTaken | None:
    """What a run would be refused with; None where the table is the task's."""
    owner = owner_of(project, task)
    other_owners, taker = owners.other_owners(owner), owners.taken_by(owner)
    if taker is not None:
        return TableTaken(
            f"{task.target} was taken over by {describe_owner(project, taker)}",
            now=UNCHANGED,
            fix=f"If {task.name} should own the table again, with the rows that are in it: {_takeover(task)}",
        )
    if not other_owners:
        return refusal_of_cut(task, owners.labels.get(owner, frozenset()), owners.cuts.get(owner, {}))
    other = max(other_owners, key=lambda owner: (other_owners[owner], owner))
    return TableTaken(
        f"{task.target} {_listed(project, other_owners)}",
        now=UNCHANGED,
        fix=f"{_renamed(project, task, other)} If this is a different task that should own the table from now on "
        f"(existing rows stay): {_takeover(task)}",
    )


def _takeover(task: Task) -> str:
    return f'twice takeover {task.name} --reason "…".'


def _listed(project: str, other_owners: dict[Owner, int]) -> str:
    """`holds 2 slices that were published by the task a, 1 slice …`"""
    holds = [
        f"{count:,} {'slice that was' if count == 1 else 'slices that were'} published by "
        f"{describe_owner(project, owner)}"
        for owner, count in other_owners.items()
        if count
    ]
    taken = [
        f"was taken over by {describe_owner(project, owner)}" for owner, count in other_owners.items() if not count
    ]
    return ", ".join([*([f"holds {', '.join(holds)}"] if holds else []), *taken])


def describe_owner(project: str, owner: Owner) -> str:
    return f"the task {owner.task}" + ("" if owner.project == project else f" of the project {owner.project}")


def _renamed(project: str, task: Task, other: Owner) -> str:
    """What to write if it is the same task after all."""
    if other.project != project:
        return f'If only its id was changed, put it back in twice.toml: project = "{other.project}".'
    if other.task == task.name:
        return f"It was published under the name it has: leave out formerly={_written(task.formerly)}."
    names = (other.task, *(old for old in task.formerly if old != other.task))
    oldest = ", the oldest name first," if len(names) > 1 else ""
    return f"If {task.name} is its new name, write formerly={_written(names)}{oldest} on the task."


def _written(names: tuple[str, ...]) -> str:
    inside = ", ".join(f'"{name}"' for name in names)
    return f"({inside},)" if len(names) == 1 else f"({inside})"
