"""Records from before the ledger knew whose they are: the tables are asked which of them are their own.

An attempt's id is in the commit that it made, so a table shows its own attempts. Old records of an attempt that no
commit names are unassigned: `twice ledger unassigned` lists them, and no effect of theirs is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from twice.core.failure.interruption import interruption
from twice.core.failure.root_cause import in_one_line
from twice.core.ledger.found import Shown
from twice.core.ledger.record import RunRecord
from twice.core.ports import Target
from twice.core.table.token import SliceToken, token_name
from twice.core.task import Task
from twice.runtime.context import RunContext

_log = logging.getLogger("twice")


def names_of(task: Task) -> tuple[str, ...]:
    """Every name that old records of the task may have."""
    return (task.name, *task.formerly)


def assign_all(context: RunContext) -> None:
    """Ask the table of every task that has old records, once. One that cannot be asked now, for whatever reason, is
    logged and asked the next time; until then its old records are unassigned, and nothing of them is sent. It
    stops no command: most have nothing to do with that table. Dying in here leaves the rest to the next command."""
    tasks = context.project.tasks
    waiting = context.ledger.unassigned.waiting({name: names_of(task) for name, task in tasks.items()})
    if not waiting:
        return
    with context.session() as session:
        for name in waiting:
            context.progress.begins("asking the table which old records are its own", name)
            try:
                shown = _shown_by_table(context, tasks[name], session)
            except Exception as error:
                if interruption(error) is not None:
                    raise
                _log.warning(
                    "%s: %s cannot be asked now which of the ledger's old records are its own (%s); "
                    "the next command asks it again; until then they stay unassigned",
                    *(name, tasks[name].target, in_one_line(error)),
                )
                continue
            context.ledger.unassigned.take(name, names_of(tasks[name]), shown, all_slices=True)


def assign_at_look(
    context: RunContext,
    task: Task,
    target: Target,
    tokens: Sequence[SliceToken],
    recorded: dict[str, RunRecord],
) -> dict[str, RunRecord]:
    """At a look: an older twice may have been at work when this ledger learnt of environments, and has landed since.
    What is recorded of the slices now."""
    ahead = [
        token
        for token in tokens
        if token.generation > (recorded[token.label].generation if token.label in recorded else 0)
    ]
    if not ahead or not context.ledger.unassigned.any(names_of(task)):
        return recorded
    notes = {token.label: target.provenance(task.target, token.name, token.generation) for token in ahead}
    newest = {label: note.attempt for label, note in notes.items() if note is not None}
    generations = {token.label: token.generation for token in ahead}
    shown = Shown(frozenset(newest.values()), generations, newest)
    context.ledger.unassigned.take(task.name, names_of(task), shown, all_slices=False)
    return context.ledger.runs_of(task.name, [token.label for token in tokens])


def _shown_by_table(context: RunContext, task: Task, session: Any) -> Shown:
    """The attempts that the newest commit of each slice names; and those whose effects are still to be sent, if an
    older commit names them: these are few, so each may be asked for."""
    target = context.target_of(task.target, session)
    prefix = token_name(context.project.id, task.first_name, "")
    tokens = {name.removeprefix(prefix): held for name, held in target.tokens(task.target, prefix).items()}
    newest = {label: held.note.attempt for label, held in tokens.items() if held.note is not None}
    shown = set(newest.values())
    for attempt, label, generation in context.ledger.unassigned.unsent(names_of(task)):
        if attempt not in shown and label in tokens and generation < tokens[label].generation:
            note = target.provenance(task.target, f"{prefix}{label}", generation)
            shown |= {attempt} if note is not None and note.attempt == attempt else set()
    return Shown(frozenset(shown), {label: held.generation for label, held in tokens.items()}, newest)
