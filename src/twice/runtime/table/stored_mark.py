"""Where an incremental task is, by its token. Reads only."""

from __future__ import annotations

from dataclasses import replace

from twice.core.failure.interruption import interruption
from twice.core.ports import GenerationHistory, Target
from twice.core.project.project import Project
from twice.core.since import CursorValue, Since, mark_text, type_of
from twice.core.table.mark import counted_from, kind_of, last_of_kind, mark_in, mark_of
from twice.core.table.token import Cursor, token_name
from twice.core.task import TableName, Task
from twice.core.write import WritePlan
from twice.errors import UNCHANGED, DeclarationError
from twice.runtime.context import RunContext


def stored_mark(ledger: GenerationHistory, task: Task, scope: Since, version: int) -> CursorValue | None:
    """The mark that a token's version stands for; None where nothing is published.

    Raises DeclarationError where it is a mark of another kind of cursor, or was counted from an `initial` that is
    not on record: to guess would read rows twice, or never.
    """
    if version == 0:
        return None
    if kind_of(version) is None:
        return _counted(ledger, task, scope, version)
    if kind_of(version) != scope.type:
        raise _other_kind(task, scope, str(kind_of(version)))
    return mark_of(version)


def refuse_other_kind(context: RunContext, task: Task, plan: WritePlan) -> None:
    """Raise DeclarationError where the table's mark is of another kind of cursor: before anything is claimed, so that
    nothing is recorded of it. The table is asked only where the ledger knows no mark of the right kind. What is in its
    way is left to the look, which reports it."""
    scope = task.scope
    if not isinstance(scope, Since):
        return
    run = context.ledger.run(task.name, scope.only.label)
    if run is not None and run.generation and kind_of(run.generation) in (None, scope.type):
        return
    try:
        with context.session() as session:
            published = context.target_of(task.target, session).published(task.target, plan.token_names)
    except Exception as error:
        if interruption(error) is not None:
            raise
        return
    held = [kind_of(version) for version in published.generations.values() if version]
    for kind in held:
        if kind not in (None, scope.type):
            raise _other_kind(task, scope, str(kind))


def cursor_input(task: Task, scope: Since) -> tuple[str, TableName]:
    """The one input that is read from the mark on, by its name in the task: its declaration was checked for that."""
    ((name, source),) = ((name, source) for name, source in task.tables.items() if source.by == scope.cursor)
    return name, source.table


def task_cursor(project: Project, task: Task, scope: Since) -> Cursor:
    """What the task's own mark counts, in the one spelling of its table."""
    _, table = cursor_input(task, scope)
    return Cursor(scope.cursor, str(project.located(table)))


def other_cursor(context: RunContext, task: Task, scope: Since, version: int, target: Target) -> Cursor | None:
    """What the table's mark counts, if it is something else than the task reads; None also where there is no record.
    The commit is asked only where the ledger does not know that the same code made the mark."""
    run = context.ledger.run(task.name, scope.only.label)
    known = run.intention if run is not None and run.generation == version else None
    if not version or (known is not None and known.code == context.code_hash(task)):
        return None
    name = token_name(context.project.id, task.first_name, scope.only.label)
    note = target.provenance(task.target, name, version)
    if note is None or note.cursor is None:
        return None
    held = _spelled(context.project, note.cursor)
    return None if held.same_as(task_cursor(context.project, task, scope)) else held


def _spelled(project: Project, cursor: Cursor) -> Cursor:
    """A commit of an earlier twice names the table as it was declared."""
    if cursor.table is None:
        return cursor
    return replace(cursor, table=str(project.located(TableName.parse(cursor.table))))


def refuse_other_cursor(context: RunContext, task: Task, scope: Since, version: int, target: Target) -> None:
    """How far one column was read says nothing of another, nor of another table's: rows would come twice, or never."""
    held = other_cursor(context, task, scope, version, target)
    if held is not None:
        raise cursor_changed(context.project, task, scope, version, held)


def cursor_changed(project: Project, task: Task, scope: Since, version: int, held: Cursor) -> DeclarationError:
    """`held`: what the table's mark counts."""
    at = "…" if kind_of(version) is None else mark_text(mark_of(version))
    now = task_cursor(project, task, scope)
    return DeclarationError(
        f"the mark in the table was written for {held}, and the task now reads {now}",
        where=task.name,
        now=UNCHANGED,
        fix=f"Declare {held} again. If {now} holds the same values under a new name: twice mark reset {task.name} "
        f"--to {at} --reason …. If not, reset the mark to the last value of {now} that was loaded, or to "
        f"initial={scope.initial} if none was.",
    )


def frozen_bound(ledger: GenerationHistory, task: Task, scope: Since, version: int) -> CursorValue | None:
    """The upper bound of an earlier attempt from the same mark; None if there was none, or of another kind."""
    aim = ledger.frozen_aim(task.name, scope.only.label, version)
    return mark_of(aim) if aim is not None and kind_of(aim) == scope.type else None


def reads_again(ledger: GenerationHistory, task: Task, scope: Since, version: int) -> bool:
    """Whether the mark was further once: what comes next was read before, and a person wants it read again."""
    furthest = ledger.furthest_aim(task.name, scope.only.label, last_of_kind(version))
    return furthest is not None and furthest > version


def written_over(ledger: GenerationHistory, task: Task, scope: Since, version: int) -> tuple[str, ...]:
    """The note of a mark in a table that was cut differently since: none once a person had the rows read again."""
    if reads_again(ledger, task, scope, version):
        return ()
    return (
        "slices that were cut differently may have overwritten rows up to the mark, and these are not read again "
        f"by themselves: twice mark reset {task.name} --to … reads them again",
    )


def _counted(ledger: GenerationHistory, task: Task, scope: Since, version: int) -> CursorValue:
    """By the attempt that wrote it: the ledger kept which mark it moved to. `initial` may be another one since."""
    for why in ledger.why_published(task.name, scope.only.label, version):
        mark = mark_in(why)
        if mark is None:
            continue
        if type_of(mark) != scope.type:
            raise _other_kind(task, scope, type_of(mark))
        return mark
    at = mark_text(counted_from(scope.start, version))
    raise DeclarationError(
        "the table's mark was written by an older twice as a distance from initial=, and the ledger no longer has that "
        "value",
        where=task.name,
        now=UNCHANGED,
        fix=f"Set it: twice mark reset {task.name} --to {at} --reason …, if initial={scope.initial} was never "
        "changed; else the mark of the last run.",
    )


def _other_kind(task: Task, scope: Since, held: str) -> DeclarationError:
    return DeclarationError(
        f"the table's mark is {_with_article(held)}, and initial={scope.initial} makes {scope.cursor} "
        f"{_with_article(scope.type)}",
        where=task.name,
        now=UNCHANGED,
        fix=f"Give initial= as it was, or set the new cursor's mark: twice mark reset {task.name} --to … --reason ….",
    )


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind == "integer" else f"a {kind}"
