"""What others did to a table since a task published to it. twice cannot keep other writers away; it can say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twice.core.ports import Foreign, Target
from twice.core.since import Since
from twice.core.task import Task
from twice.core.write import Plan, ReplaceRows
from twice.runtime.context import RunContext

_SHOWN = 3


@dataclass(frozen=True)
class Others:
    """`labels`: the slices whose rows are not what was published of them, or may not be. `forgotten`: those of which
    the table's log cannot say it any more."""

    notes: tuple[str, ...] = ()
    labels: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()


def changed_by_others(context: RunContext, task: Task, target: Target, plan: Plan) -> Others:
    """Since each slice was published. A slice that owns no rows (its write finds them by key, or only adds) is
    concerned by every change of the table; one that is new, by those since the task last published. Reads only."""
    runs = context.ledger.runs_of(task.name, [slice_.label for slice_ in plan.slices])
    known = {label: run.version for label, run in runs.items() if run.generation and run.version is not None}
    if isinstance(plan.write, ReplaceRows):
        return _of_slices(task, target, plan, known)
    return _of_the_table(context, task, target, plan, known)


def _of_slices(task: Task, target: Target, plan: Plan, known: dict[str, int]) -> Others:
    mine = [slice_ for slice_ in plan.slices if slice_.label in known]
    # One question for all of them: hardly ever is there anything to tell apart.
    if not mine or not target.foreign(task.target, min(known.values()), mine):
        return Others()
    found = {slice_.label: target.foreign(task.target, known[slice_.label], [slice_]) for slice_ in mine}
    notes = [
        f"what others did to {label} up to version {change.version} is forgotten by the table's log"
        if change.forgotten
        else f"{label} was changed by others in version {change.version} ({change.operation}); "
        f"to put it right: twice restate {task.name} --date {label}"
        for label, changes in found.items()
        for change in changes
    ]
    return Others(tuple(notes), _changed(found), _forgotten(found))


def _of_the_table(context: RunContext, task: Task, target: Target, plan: Plan, known: dict[str, int]) -> Others:
    labels = [slice_.label for slice_ in plan.slices]
    last = None if all(label in known for label in labels) else context.ledger.last_version(task.name)
    found = {}
    for slice_ in plan.file_slices:
        since = known.get(slice_.label, last)
        found[slice_.label] = () if since is None else target.foreign(task.target, since, [slice_])
    notes = [_describe(task, label, changes, label in known) for label, changes in found.items() if changes]
    return Others(tuple(notes), _changed(found) & known.keys(), _forgotten(found) & known.keys())


def _describe(task: Task, label: str, changes: Sequence[Foreign], published: bool) -> str:
    known_changes = [change for change in changes if not change.forgotten]
    sliced = published and not isinstance(task.scope, Since)
    when = f"since {label} was published" if sliced else "since this task last published"
    if not known_changes:
        return f"what others did to the table {when}, up to version {changes[0].version}, is forgotten by its log"
    versions = ", ".join(f"{change.version} ({change.operation})" for change in known_changes[-_SHOWN:])
    more = f" and {len(known_changes) - _SHOWN} before" if len(known_changes) > _SHOWN else ""
    noun = "version" if len(known_changes) == 1 else "versions"
    return f"the table was changed by others {when}, in {noun} {versions}{more}; {_remedy(task, label, published)}"


def _remedy(task: Task, label: str, published: bool) -> str:
    if isinstance(task.scope, Since):
        return f"rows that are gone are read again only if you set the mark back: twice mark reset {task.name} --to …"
    if not task.write.restatable:
        return f"{task.write.name}() puts no row back that is gone"
    return f"to put rows back: twice restate {task.name} --date {label if published else 'DATE'}"


def _changed(found: dict[str, tuple[Foreign, ...]]) -> frozenset[str]:
    return frozenset(label for label, changes in found.items() if any(not change.forgotten for change in changes))


def _forgotten(found: dict[str, tuple[Foreign, ...]]) -> frozenset[str]:
    return frozenset(label for label, changes in found.items() if any(change.forgotten for change in changes))
