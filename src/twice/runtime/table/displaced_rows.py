"""Slices of which rows were displaced by newer ones of other slices (`merge(delete_missing)`): once those have run, the
rows may be due after all, and nothing else would come back to them."""

from __future__ import annotations

from collections.abc import Collection

from twice.core.ports import RunLedger
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.core.write import UpsertRows
from twice.runtime.write_plan import make_write_plan


def may_be_displaced(task: Task) -> bool:
    """Whether slices of the task can lose rows to each other."""
    if not isinstance(task.scope, TimeScope):
        return False
    verb = make_write_plan("", task, (task.scope.first,)).write
    return isinstance(verb, UpsertRows) and verb.may_be_displaced


def displaced(ledger: RunLedger, task: Task) -> frozenset[str]:
    """The labels of such slices, as the ledger knows; in doubt (it was rebuilt) those that may be."""
    return ledger.displaced(task.name) if may_be_displaced(task) else frozenset()


def to_come_back(ledger: RunLedger, task: Task, made: Collection[Slice]) -> tuple[Slice, ...]:
    """Of the slices that somebody has just made: those whose rows were displaced before another one of them was
    published, oldest first. Once they are made again, no other is published after the last of them."""
    left = displaced(ledger, task) if len(made) > 1 else frozenset()
    if not left:
        return ()
    runs = ledger.runs_of(task.name, [slice_.label for slice_ in made])
    versions = {label: -1 if run.version is None else run.version for label, run in runs.items()}
    newest = max(versions.values(), default=-1)
    return tuple(sorted(s for s in made if s.label in left and versions.get(s.label, -1) < newest))
