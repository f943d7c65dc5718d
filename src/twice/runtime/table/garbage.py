"""Collecting what dead attempts have staged. Never by age, never by lease: only when the target has passed them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from twice.core.failure.interruption import interruption
from twice.core.failure.root_cause import in_one_line
from twice.core.ledger.record import AttemptRecord
from twice.core.ports import Target
from twice.core.scope import slices_named
from twice.core.slice import WHOLE, Slice
from twice.core.table.token import SliceToken, token_name
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.table.old_tables import left_open
from twice.runtime.table.settle import held_since, passed_at, settle_passed
from twice.runtime.write_plan import make_write_plan


@dataclass(frozen=True)
class RemovedFiles:
    """`kept` are attempts whose generation is not passed: a process behind one may still publish its files; `slices`
    are theirs: once they are published again, none can. `given_up`: of a task that is no longer declared, it is
    not known where they staged. `unasked`: the table, and why it could not be read: what is open there stays open.
    `former`: of a table that the task wrote before it was given another one."""

    task: str
    files: int
    attempts: tuple[str, ...]
    kept: tuple[str, ...]
    slices: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    unasked: str = ""
    former: bool = False


def remove_passed(
    context: RunContext, task: Task, target: Target, labels: Collection[str], written: bool = True
) -> RemovedFiles:
    """Settle and tidy up after the attempts on these slices that must lose by now. A second call finds nothing.
    `written`: the task still writes this table. One that it does not write any more no run will ever pass.

    Dying in here leaves files that the next call finds.
    """
    # The ledger first: it answers in a millisecond that there is nothing to ask the table about.
    if not context.ledger.open_attempts(task.name, tuple(labels)) and not context.ledger.undiscarded(task.name):
        return RemovedFiles(task.name, 0, (), ())
    tokens = _tokens(context, task, target, labels)
    settle_passed(context, task, target, tokens)
    files, done, kept, slices = 0, [], [], dict[str, None]()
    wanted = set(labels)
    left = [each for each in context.ledger.undiscarded(task.name) if wanted & {slice_.label for slice_ in each.slices}]
    generations = held_since(task, target, tokens, left)
    for attempt in left:
        passed = attempt.never_looked or passed_at(attempt, generations) is not None
        if passed or not (written and _slices_left(task, attempt)):
            files += target.discard(task.target, attempt.id, _slices_covered(context, task, attempt))
            context.ledger.discarded(attempt.id)
            done.append(attempt.id)
        else:
            kept.append(attempt.id)
            slices.update(dict.fromkeys(slice_.label for slice_ in attempt.slices))
    return RemovedFiles(task.name, files, tuple(done), tuple(kept), tuple(slices))


def _tokens(context: RunContext, task: Task, target: Target, labels: Collection[str]) -> tuple[SliceToken, ...]:
    """By the labels that the ledger has: the task's scope may have such slices no more, and they may be published."""
    names = {label: token_name(context.project.id, task.first_name, label) for label in labels}
    generations = target.published(task.target, tuple(names.values())).generations
    return tuple(SliceToken(name, label, generations[name]) for label, name in names.items())


def collect_garbage(context: RunContext, session: Any) -> tuple[RemovedFiles, ...]:
    """`twice gc`: every task whose attempts may have left something. A table that cannot be asked stops no other."""
    context.progress.begins("looking for what dead attempts staged", "ledger")
    found = []
    for name, labels in sorted(_left_behind(context).items()):
        task = context.project.tasks.get(name)
        found.append(_given_up(context, name) if task is None else _collect(context, task, labels, session))
    for there, task in left_open(context):
        labels = _left_behind(there, task.name).get(task.name, set())
        found.append(_collect(there, task, labels, session, written=False))
    return tuple(found)


def _collect(context: RunContext, task: Task, labels: set[str], session: Any, written: bool = True) -> RemovedFiles:
    context.progress.begins("deleting what dead attempts staged", task.name)
    try:
        return remove_passed(context, task, context.target_of(task.target, session), sorted(labels), written)
    except Exception as error:  # noqa: BLE001 - it is away, or gone for good
        return RemovedFiles(task.name, 0, (), (), unasked=why_unreadable(task, error), former=not written)


def why_unreadable(task: Task, error: Exception) -> str:
    if interruption(error) is not None:
        raise error
    return f"{task.target}: {in_one_line(error)}"


def unreadable(removed: Sequence[RemovedFiles]) -> tuple[str, ...]:
    """The tables that tasks write and that could not be read, and why."""
    return tuple(one.unasked for one in removed if one.unasked and not one.former)


def _given_up(context: RunContext, name: str) -> RemovedFiles:
    """Its declaration is gone, and with it the name of its table: VACUUM has what it left. It is reported once."""
    attempts = tuple(attempt.id for attempt in context.ledger.undiscarded(name))
    for attempt in attempts:
        context.ledger.discarded(attempt)
    return RemovedFiles(name, 0, (), (), given_up=attempts)


def _left_behind(context: RunContext, task: str | None = None) -> dict[str, set[str]]:
    labels: dict[str, set[str]] = {}
    for attempt in (*context.ledger.undiscarded(task), *context.ledger.open_attempts(task)):
        labels.setdefault(attempt.task, set()).update(slice_.label for slice_ in attempt.slices)
    return labels


def _slices_left(task: Task, attempt: AttemptRecord) -> tuple[Slice, ...]:
    """Its slices that the task's scope still has. Without one no run will ever pass it: what it has staged goes; if
    its process lives after all, it looks for its files before it publishes, and finds none."""
    return slices_named(task.scope, [slice_.label for slice_ in attempt.slices])


def _slices_covered(context: RunContext, task: Task, attempt: AttemptRecord) -> tuple[Slice, ...]:
    """Where in the table its files may lie: anywhere, if the scope does not say it of all its slices any more, or if it
    was to give the table another layout."""
    slices = _slices_left(task, attempt)
    if len(slices) < len(attempt.slices) or attempt.kind == "rebuild":
        return (WHOLE,)
    return make_write_plan(context.project.id, task, slices).file_slices
