"""Is there still nothing after an incremental task's mark? A run that read the source and found nothing records at
which version of it that was. While the table's log shows no change of data since, the answer is the same without
reading it.

The publish before does not show that: a run whose bound an earlier attempt had frozen leaves rows behind it unread.
"""

from __future__ import annotations

import hashlib
import json

from twice.core.ledger.record import NOTHING_AFTER, InputRecord
from twice.core.since import Since
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.table.stored_mark import cursor_input

NOT_MOVED = "the source has not moved beyond the mark"


def nothing_after(
    context: RunContext, task: Task, generation: int, version: int, source: str | None
) -> tuple[InputRecord, ...]:
    """That there is nothing after this mark in this version of the source. `source`: its id; nothing of one that has
    none: its versions do not count what others write."""
    assert isinstance(task.scope, Since), task.name
    if source is None:
        return ()
    _, table = cursor_input(task, task.scope)
    name, what = str(context.project.located(table)), _what(task, task.scope, generation, source)
    return (InputRecord(task.scope.only.label, NOTHING_AFTER, name, what, version),)


def still_nothing_after(context: RunContext, task: Task, generation: int) -> tuple[InputRecord, ...]:
    """The same of the source as it is now, by its log; nothing where that does not show it. Reads only."""
    assert isinstance(task.scope, Since), task.name
    _, table = cursor_input(task, task.scope)
    name, label = str(context.project.located(table)), task.scope.only.label
    held = context.ledger.inputs(task.name, [label]).get(label, ())
    known = [record for record in held if record.kind == NOTHING_AFTER and record.name == name]
    if not known or known[-1].version is None:
        return ()
    now = context.target_of(table, None).touched(table, known[-1].version, None)
    if now is None or now.id is None or now.spans != () or now.is_another(known[-1].version, now.id):
        return ()
    found = nothing_after(context, task, generation, now.version, now.id)
    return found if [each.identity for each in found] == [known[-1].identity] else ()


def _what(task: Task, scope: Since, generation: int, source: str) -> str:
    """What the answer depends on beside the source's rows: which table it is, the mark, and what is declared of it."""
    parts = [source, generation, scope.cursor, str(scope.initial), str(scope.lag), task.write.kind]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
