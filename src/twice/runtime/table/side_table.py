"""The table beside a task's own that is to take its place: whose it is, what for, and dropping it.

It is made by a commit of its own, before it has any row of the task's: the token of that commit says whose it is, its
note what for. A table of this name without that token is somebody else's: it is neither filled nor dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twice.core.ports import Landed, PreparedTable, Target
from twice.core.slice import WHOLE
from twice.core.table.rebuild import not_ours, side_table, side_token
from twice.core.table.token import CommitNote, Intention, Kind
from twice.core.task import Task
from twice.core.write import AppendRows, WritePlan
from twice.errors import UNCHANGED, Superseded
from twice.runtime.context import RunContext


@dataclass(frozen=True)
class SideTable:
    """`kind`: how it is filled, by a `rebuild` slice by slice, or (`adopt`) as a copy in one piece; `code`: the hash of
    the code that fills it; `attempt`: who made it, and may have brought files into the table's own folder; `holder`:
    the process that did. They are None once the log forgot that commit."""

    id: str | None
    version: int
    kind: Kind | None
    code: str | None
    attempt: str | None
    holder: str | None

    @property
    def copy(self) -> bool:
        """Of no use to anybody but the process that made it."""
        return self.kind == "adopt"


def held_side(context: RunContext, task: Task, target: Target) -> SideTable | None:
    """Raises DeclarationError for a table of its name that is not this task's. Reads only."""
    side, token = side_table(task.target), side_token(context.project.id, task)
    found = target.published(side, (token,))
    if found.version is None:
        return None
    if not found.generations[token]:
        raise not_ours(side)
    note = target.provenance(side, token, found.generations[token])
    if note is None:
        return SideTable(found.id, found.version, None, None, None, None)
    made = note.intentions.get(token)
    return SideTable(found.id, found.version, note.kind, made.code if made else None, note.attempt, note.why)


def side_note(context: RunContext, task: Task, kind: Kind, attempt: str, code: str) -> CommitNote:
    """What the commit that makes it says."""
    token = side_token(context.project.id, task)
    return CommitNote(attempt, kind, {token: 1}, {token: Intention(code, None)}, why=context.holder)


def make_side(context: RunContext, task: Task, target: Target, into: PreparedTable, note: CommitNote) -> None:
    """Without rows. Dying here has made it or not."""
    side, token = side_table(task.target), side_token(context.project.id, task)
    slices = (replace(WHOLE, label=token),)
    staged = target.stage(side, None, WritePlan(AppendRows(slices), slices, (token,)), note.attempt, into=into)
    if not isinstance(target.commit(staged, {token: 0}, note), Landed):
        raise Superseded(
            f"{side} was made by another process at the same moment",
            where=task.name,
            now=UNCHANGED,
            fix="Let the other one end, then run this again: it looks first.",
        )


def drop_copy(context: RunContext, task: Task, target: Target) -> bool:
    """Drop the copy that a process has left which died; whether there was one. What slices are filled in stays, and so
    does what is somebody else's."""
    side, token = side_table(task.target), side_token(context.project.id, task)
    if not target.published(side, (token,)).generations[token]:
        return False
    held = held_side(context, task, target)
    if held is None or not held.copy:
        return False
    drop_side(context, task, target)
    return True


def drop_side(context: RunContext, task: Task, target: Target) -> SideTable | None:
    """The side table, as it was found, is gone, with what the exchange of a copy has left in the table's own folder.
    Raises DeclarationError for one that is not this task's. Dying here leaves the rest to the next call."""
    held = held_side(context, task, target)
    if held is not None and held.copy and held.attempt is not None:
        target.discard(task.target, held.attempt, (WHOLE,))
    target.drop_side(side_table(task.target), side_token(context.project.id, task))
    return held
