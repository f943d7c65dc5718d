"""Was a table another task's since a slice of this one was published, and was taken back? The other may have written
over its rows, which moves no token of ours. Such a slice is not believed (decision 0019)."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.ports import Target
from twice.core.scope import cut_of, label_of
from twice.core.since import Since
from twice.core.table.owner import Owner, Ownership, form_of, owner_of, takeover_token
from twice.core.table.token import CommitNote, SliceToken, token_name
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.table.provenance import Provenance
from twice.runtime.table.stored_mark import reads_again

_ONE_BY_ONE = 10
"""So many commits are asked for, each where it is remembered."""


def moved_by_takeover(task: Task) -> bool:
    """Whether a takeover moves the task's own slices on, so that they are computed again."""
    return task.write.restatable and not isinstance(task.scope, Since)


def taken_back(
    context: RunContext, task: Task, target: Target, made: Sequence[tuple[SliceToken, Provenance]], owners: Ownership
) -> frozenset[str]:
    """The labels of the slices whose token was last moved by a takeover of their own task. Where the log has forgotten
    that, and there is no record of what a slice was made from, it counts as one. Only of what can be computed again:
    nothing else is moved by a takeover. Reads only, and only of a task that took its table over once."""
    if not moved_by_takeover(task) or not _taken_from(context, task, owners):
        return frozenset()
    doubtful = [(token, each.version) for token, each in made if token.generation and each.intention is None]
    notes = _notes(context, task, target, doubtful)
    return frozenset(label for label, note in notes.items() if note is None or note.kind == "takeover")


def may_hold_others(context: RunContext, task: Task, owners: Ownership) -> bool:
    """Whether a slice's first publish may meet rows in its place: of a task that had the table before, or of the task's
    own slices that were cut differently."""
    me, own = owner_of(context.project.id, task), form_of(label_of(task.scope))
    other_forms = any(form_of(label) != own for label in owners.labels.get(me, ()))
    other_cuts = any(cut != cut_of(task.scope) for cut in owners.cuts.get(me, ()))
    return other_forms or other_cuts or bool(_taken_from(context, task, owners))


def _notes(
    context: RunContext, task: Task, target: Target, slices: Sequence[tuple[SliceToken, int | None]]
) -> dict[str, CommitNote | None]:
    """Of the commits that moved these tokens last: one question for all of many, since each may be a search of the
    whole log."""
    if len(slices) <= _ONE_BY_ONE:
        ask = target.provenance
        return {token.label: ask(task.target, token.name, token.generation, at=at) for token, at in slices}
    held = target.tokens(task.target, token_name(context.project.id, task.first_name, ""))
    return {token.label: held[token.name].note if token.name in held else None for token, _ in slices}


def may_be_overwritten(
    context: RunContext, task: Task, target: Target, token: SliceToken, made: Provenance, owners: Ownership
) -> tuple[str, ...]:
    """The note of a slice that was published before its table was taken back, and is not computed again by itself: rows
    of a mark are not read twice, what was appended is not appended again. Reads only."""
    if not token.generation or moved_by_takeover(task) or made.version is None:
        return ()
    taken = [
        note.version
        for old, number in _taken_from(context, task, owners).items()
        if (note := target.provenance(task.target, takeover_token(owner_of(context.project.id, task), old), number))
        and note.version is not None
    ]
    if not taken or max(taken) < made.version:
        return ()
    since = f"{task.target} was another task's, and taken back, after {token.label} was published"
    if not isinstance(task.scope, Since):
        return (f"{since}: what it appended may have been replaced, and is not appended again",)
    if reads_again(context.ledger, task, task.scope, token.generation):
        return ()
    return (
        f"{since}: rows up to the mark may have been replaced, and are not read again by themselves: "
        f"twice mark reset {task.name} --to … reads them again",
    )


def _taken_from(context: RunContext, task: Task, owners: Ownership) -> dict[Owner, int]:
    """From whom the task took the table over, and the number of that takeover."""
    me = owner_of(context.project.id, task)
    return {old: number for (new, old), number in owners.takeovers.items() if new == me}
