"""Were a task's slices cut differently since one of them was published? What another cut wrote may have overwritten its
rows, and does not move its token; and the same label may have named other rows. Such a slice is not believed (decision
0024).

A token of the task's cut remembers in the table itself how its slices are cut, and from which version on. Where a
strategy cannot write over slices of another cut, a run is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twice.core.ports import Published, Target
from twice.core.scope import column_of_cut, cut_of, label_of
from twice.core.table.owner import cut_token, form_of, last_cut_token, owner_of
from twice.core.table.token import token_name
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.core.write import appended_again, cut_text
from twice.errors import OTHER_SCOPE, UNCHANGED, TableTaken
from twice.runtime.context import RunContext


@dataclass(frozen=True)
class StoredCut:
    """What a table remembers of a task's cut. `from_version`: the first whose commits are cut as the task cuts now;
    None where the newest are not. `move`: the tokens that the next publish writes into its commit, if it must."""

    from_version: int | None = 0
    move: Mapping[str, int] = field(default_factory=dict)

    def doubts(self, generation: int, version: int | None) -> bool:
        """Whether slices that were cut differently may have overwritten a published one. `version`: of the commit that
        published it; None where there is no record."""
        if not generation or self.from_version == 0:
            return False
        return self.from_version is None or version is None or version < self.from_version


def stored_cut(context: RunContext, task: Task, target: Target, published: Published) -> StoredCut:
    """By what a look has read. Reads more only where slices of another form lie in the table and none was published
    since cuts are remembered. Changes nothing."""
    me, mine = owner_of(context.project.id, task), cut_of(task.scope)
    names, held = (cut_token(me, mine), last_cut_token(me)), published.owners.cuts.get(me, {})
    # A token of 0 is none, and Delta's first version is 0: the number is one more than the first version that counts.
    if held:
        if newest_cut(held) == mine:
            return StoredCut(held[mine] - 1)
        now = -1 if published.version is None else published.version
        return StoredCut(None, dict.fromkeys(names, max(now + 2, max(held.values()) + 1)))
    first = _after_others(context, task, target, published.owners.labels.get(me, frozenset()))
    return StoredCut(first, dict.fromkeys(names, first + 1))


def newest_cut(held: Mapping[str, int]) -> str | None:
    """None where two came first at the same moment: neither is believed."""
    highest = [cut for cut, number in held.items() if number == max(held.values())]
    return highest[0] if len(highest) == 1 else None


def _after_others(context: RunContext, task: Task, target: Target, labels: frozenset[str]) -> int:
    """The first version after every commit of slices whose labels have another form: of earlier versions of twice
    nothing else says how they were cut. A commit that the log forgot is older than all that it has, so nothing in the
    log is in doubt for it. If the ledger does not know it either, it is not known to have come later: it puts nothing
    in doubt."""
    own = form_of(label_of(task.scope))
    if all(form_of(label) == own for label in labels):
        return 0
    prefix = token_name(context.project.id, task.first_name, "")
    tokens = {name.removeprefix(prefix): held for name, held in target.tokens(task.target, prefix).items()}
    others = {label: held for label, held in tokens.items() if form_of(label) != own}
    runs = context.ledger.runs_of(task.name, [label for label, held in others.items() if held.version is None])
    known = [run.version for run in runs.values() if run.generation == others[run.label].generation]
    versions = [version for version in (*known, *(held.version for held in others.values())) if version is not None]
    return 1 + max(versions, default=-1)


def refusal_of_cut(task: Task, labels: frozenset[str], held: Mapping[str, int]) -> TableTaken | None:
    """What a run of the task is refused with for how its own slices are cut in the table: by the form of their labels,
    or as the table remembers it. None where its strategy may write over them."""
    return _other_form(task, labels) or _other_cut(task, held)


def _other_form(task: Task, labels: frozenset[str]) -> TableTaken | None:
    """Rows without a key are identified by their slice alone: by another scope, those that are there have other labels,
    and would be appended once more."""
    other = sorted(label for label in labels if form_of(label) != form_of(label_of(task.scope)))
    if task.write.kind != "append" or not other:
        return None
    return TableTaken(
        f"{task.target} holds slices of another scope, such as {other[0]}: {task.write.name}() would add rows again",
        now=UNCHANGED,
        fix=OTHER_SCOPE,
    )


def _other_cut(task: Task, held: Mapping[str, int]) -> TableTaken | None:
    """The same of slices whose labels look alike, as the table remembers their cut, whoever made it. And a slice
    column that twice computes holds what the newest slices are cut by: under another cut a slice would take rows of
    others away with its own."""
    mine, newest = cut_of(task.scope), newest_cut(held)
    other = sorted(cut for cut in held if cut != mine)
    if not other:
        return None
    if task.write.kind == "append":
        return TableTaken(
            appended_again(str(task.target), other[0], mine),
            now=UNCHANGED,
            fix=OTHER_SCOPE,
        )
    column = task.write.layout(task.scope).slice_column
    if task.write.kind != "replace" or column is None or not column.derived or newest == mine:
        return None
    theirs = newest or other[0]
    assert isinstance(task.scope, TimeScope)  # others give no slice column
    where = column_of_cut(task.scope, theirs)
    return TableTaken(
        f"{task.target} holds in {where} one value per {cut_text(theirs)}, and this scope one per {cut_text(mine)}",
        now=UNCHANGED,
        fix="Use the scope that it was published with, or give the task a new target.",
    )
