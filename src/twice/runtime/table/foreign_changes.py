"""What others did to a table since a task published to it. twice cannot keep other writers away; it can say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twice.core.hints import command, hint
from twice.core.ports import Foreign, Target
from twice.core.since import Since
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.core.write import ReplaceRows, WritePlan
from twice.runtime.context import RunContext

_SHOWN = 3


@dataclass(frozen=True)
class ForeignChanges:
    """`found`: what they did, by slice; `known`: the slices that were published before. `owned`: a slice owns its rows,
    so that a publish puts all of them right."""

    found: Mapping[str, tuple[Foreign, ...]] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    owned: bool = True

    @property
    def labels(self) -> frozenset[str]:
        """The slices whose rows are not what was published of them, or may not be."""
        return frozenset(label for label in self.known & self.found.keys() if any(map(_is_known, self.found[label])))

    @property
    def forgotten(self) -> frozenset[str]:
        """Those of which the table's log cannot say it any more."""
        changed = self.known & self.found.keys()
        return frozenset(label for label in changed if not all(map(_is_known, self.found[label])))

    def notes(self, task: Task, *, published: bool) -> tuple[str, ...]:
        """For people, once it is known how the run ended. `published`: it wrote the slices again; else it left them as
        they are, and only then is there anything to be done."""
        if not self.owned:
            changed = {label: changes for label, changes in self.found.items() if changes}
            return tuple(self._of_table(task, label, changes, published) for label, changes in changed.items())
        return tuple(
            _of_slice(task, label, change, published) for label, changes in self.found.items() for change in changes
        )

    def _of_table(self, task: Task, label: str, changes: Sequence[Foreign], published: bool) -> str:
        known_changes = [change for change in changes if _is_known(change)]
        sliced = label in self.known and not isinstance(task.scope, Since)
        when = f"since {label} was published" if sliced else "since this task last published"
        if not known_changes:
            return f"what others did to the table {when}, up to version {changes[0].version}, is no longer in its log"
        versions = ", ".join(f"{change.version} ({change.operation})" for change in known_changes[-_SHOWN:])
        more = f" and {len(known_changes) - _SHOWN} before" if len(known_changes) > _SHOWN else ""
        noun = "version" if len(known_changes) == 1 else "versions"
        end = _brought_again(task, label) if sliced and published and task.write.restatable else _remedy(task)
        return hint("{}; {}", f"the table was changed by others {when}, in {noun} {versions}{more}", end)


def changed_by_others(context: RunContext, task: Task, target: Target, plan: WritePlan) -> ForeignChanges:
    """Since each slice was published. A slice that owns no rows (its write finds them by key, or only adds) is
    concerned by every change of the table; one that is new, by those since the task last published. Reads only."""
    runs = context.ledger.runs_of(task.name, [slice_.label for slice_ in plan.slices])
    known = {label: run.version for label, run in runs.items() if run.generation and run.version is not None}
    if isinstance(plan.write, ReplaceRows):
        return _of_slices(task, target, plan, known)
    return _of_the_table(context, task, target, plan, known)


def _of_slices(task: Task, target: Target, plan: WritePlan, known: dict[str, int]) -> ForeignChanges:
    mine = [slice_ for slice_ in plan.slices if slice_.label in known]
    # One question for all of them: there is hardly ever anything to distinguish.
    if not mine or not target.foreign(task.target, min(known.values()), mine):
        return ForeignChanges()
    found = {slice_.label: target.foreign(task.target, known[slice_.label], [slice_]) for slice_ in mine}
    return ForeignChanges(found, frozenset(known))


def _of_the_table(
    context: RunContext, task: Task, target: Target, plan: WritePlan, known: dict[str, int]
) -> ForeignChanges:
    labels = [slice_.label for slice_ in plan.slices]
    last = None if all(label in known for label in labels) else context.ledger.last_version(task.name)
    found = {}
    for slice_ in plan.file_slices:
        since = known.get(slice_.label, last)
        found[slice_.label] = () if since is None else target.foreign(task.target, since, [slice_])
    return ForeignChanges(found, frozenset(known), owned=False)


def _of_slice(task: Task, label: str, change: Foreign, published: bool) -> str:
    if not _is_known(change):
        what = f"what others did to {label} up to version {change.version} is no longer in the table's log"
        return f"{what}; this run has replaced its rows" if published else what
    what = f"{label} was changed by others in version {change.version} ({change.operation})"
    if published:
        return f"{what}; this run has corrected it"
    date = label if isinstance(task.scope, TimeScope) else None
    return hint("{}; to fix it: {}", what, command("restate", task.name, date=date))


def _brought_again(task: Task, label: str) -> str:
    """Of a keyed write: what another slice brought is not in this one's hands."""
    again = f"this run has written the rows of {label} again with {task.write.name}()"
    return f"{again}; rows of other slices are as others left them" if isinstance(task.scope, TimeScope) else again


def _remedy(task: Task) -> str:
    if isinstance(task.scope, Since):
        return f"deleted rows are read again only if you set the mark back: twice mark reset {task.name} --to …"
    if not task.write.restatable:
        return f"{task.write.name}() puts no deleted row back"
    if not isinstance(task.scope, TimeScope):
        return hint("to put rows back: {}", command("restate", task.name))
    # It is not known which slice brought a row that is gone, nor whether it was restated since.
    return hint(
        "deleted rows come back when the slices that wrote them are restated: {}",
        command("restate", task.name, date="DATE"),
    )


def _is_known(change: Foreign) -> bool:
    return not change.forgotten
