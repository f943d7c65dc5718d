"""check: does the ledger say what the targets say? It reads both and changes neither.

Opening a project may have changed the ledger before: one from an earlier version is migrated, and the tables are asked
which of its old records are their own (assign.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twice.core.ledger.record import AttemptRecord, RunRecord
from twice.core.ports import Held
from twice.core.results.summary import run_label
from twice.core.scope import slices_named
from twice.core.since import Since
from twice.core.table.mark import version_text
from twice.core.table.token import token_name
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import TableTaken
from twice.runtime.context import RunContext
from twice.runtime.table.old_tables import left_open
from twice.runtime.table.owner import refusal_of
from twice.runtime.table.settle import passed_at, stopped_reporting
from twice.runtime.upkeep.rebuild_ledger import tokens_of


@dataclass(frozen=True)
class LedgerDifference:
    """Something that is not as it should be between two runs, and what puts it right. None of it endangers a table:
    every run looks at the table first."""

    where: str
    what: str
    fix: str


def check(context: RunContext, session: Any) -> tuple[LedgerDifference, ...]:
    tokens = {task.name: tokens_of(context, task, session) for task in context.project.in_order()}
    taken = {task.name: refusal for task in context.project.in_order() if (refusal := _taken(context, task, session))}
    context.progress.begins("comparing the records with the tables", "ledger")
    of_tables = (LedgerDifference(name, refusal.what, refusal.fix) for name, refusal in taken.items())
    return (*of_tables, *_of_runs(context, tokens, taken), *_of_attempts(context, tokens))


def _taken(context: RunContext, task: Task, session: Any) -> TableTaken | None:
    """The refusal that every run of the task meets. What the ledger knows of its slices is then not compared: the
    table's are another's."""
    context.progress.begins("reading whose the table is", task.name)
    any_of_mine = token_name(context.project.id, task.first_name, "")
    published = context.target_of(task.target, session).published(task.target, (any_of_mine,))
    return refusal_of(context.project.id, task, published.owners)


def _of_runs(
    context: RunContext, held: Mapping[str, Mapping[str, Held]], taken: Container[str]
) -> Iterator[LedgerDifference]:
    for task in context.project.in_order():
        if task.name in taken:
            continue
        known = {run.label: run for run in context.ledger.runs(task.name)}
        tokens = held[task.name]
        for label in sorted(known.keys() | tokens.keys()):
            difference = _compared(task.name, known.get(label), tokens.get(label))
            if difference:
                yield LedgerDifference(run_label(task.name, (label,)), *difference)


def _compared(task: str, known: RunRecord | None, held: Held | None) -> tuple[str, str] | None:
    recorded = known.generation if known else 0
    landed = held.generation if held else 0
    if landed > recorded:
        return f"the table holds {version_text(landed)}, the ledger knows of {_less(recorded)}", "twice ledger rebuild"
    if landed < recorded:
        return (
            f"the ledger knows of {version_text(recorded)}, the table holds {_less(landed)}: it was recreated, or "
            "replaced by an older copy",
            "run it: the next run goes by the table",
        )
    if known and held and held.note and known.attempt and known.attempt != held.note.attempt:
        return (
            f"{version_text(landed)} is attempt {held.note.attempt[:8]}'s in the table, "
            f"{known.attempt[:8]}'s in the ledger: one of them belongs to another copy",
            f"compare with twice history {task}; then restate it",
        )
    return None


def _less(generation: int) -> str:
    return version_text(generation).removeprefix("generation ")


def _of_attempts(context: RunContext, held: Mapping[str, Mapping[str, Held]]) -> Iterator[LedgerDifference]:
    for attempt in context.ledger.open_attempts():
        if stopped_reporting(context.ledger, attempt):
            yield LedgerDifference(
                _where(attempt), f"attempt {attempt.id[:8]} ({attempt.holder}) stopped reporting", "twice recover"
            )
    for there, task in left_open(context):
        for attempt in there.ledger.open_attempts(task.name):
            if stopped_reporting(there.ledger, attempt):
                what = f"attempt {attempt.id[:8]} on {task.target}, which its task no longer writes, stopped reporting"
                yield LedgerDifference(_where(attempt), what, "twice recover")
        for attempt in there.ledger.undiscarded(task.name):
            what = f"attempt {attempt.id[:8]} may have left staged files in {task.target}, which its task wrote before"
            yield LedgerDifference(_where(attempt), what, "twice gc")
    for attempt in context.ledger.undiscarded():
        fix = (
            "twice gc" if _collectable(context, attempt, held) else _until_passed(context, attempt, held[attempt.task])
        )
        yield LedgerDifference(_where(attempt), f"attempt {attempt.id[:8]} may have left staged files", fix)


def _collectable(context: RunContext, attempt: AttemptRecord, held: Mapping[str, Mapping[str, Held]]) -> bool:
    """Whether `gc` can take it: what it cannot is not sent there for ever."""
    task = context.project.tasks.get(attempt.task)
    if (
        task is None
        or attempt.never_looked
        or not slices_named(task.scope, [slice_.label for slice_ in attempt.slices])
    ):
        return True
    tokens = held[attempt.task]
    generations = {
        slice_.label: tokens[slice_.label].generation if slice_.label in tokens else 0 for slice_ in attempt.slices
    }
    return passed_at(attempt, generations) is not None


def _until_passed(context: RunContext, attempt: AttemptRecord, tokens: Mapping[str, Held]) -> str:
    """What publishes one of its slices. A run may find a published one right, and then publishes nothing."""
    task = context.project.tasks[attempt.task]
    labels = [slice_.label for slice_ in slices_named(task.scope, [each.label for each in attempt.slices])]
    missing = [label for label in labels if label not in tokens]
    again = not missing and not isinstance(task.scope, Since) and task.write.restatable
    label = (missing or labels)[0]
    date = f" --date {label}" if isinstance(task.scope, TimeScope) else ""
    verb = "restate" if again else "run"
    return f"twice {verb} {attempt.task}{date}: until then its process, if it is still running, may publish them"


def _where(attempt: AttemptRecord) -> str:
    return run_label(attempt.task, tuple(slice_.label for slice_ in attempt.slices))
