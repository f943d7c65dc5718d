"""Collecting what dead attempts have staged. Never by age, never by lease: only when the target has passed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twice.core.ports import Target
from twice.core.record import AttemptRecord
from twice.core.scope import slice_named
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.write import Plan
from twice.errors import UsageError
from twice.runtime.plan import make_plan
from twice.runtime.settle import never_looked, passed_at, settle_passed
from twice.runtime.workshop import Workshop


@dataclass(frozen=True)
class Collected:
    """`kept` are attempts whose generation is not passed: a process behind one may still publish its files."""

    task: str
    files: int
    attempts: tuple[str, ...]
    kept: tuple[str, ...]


def collect_passed(shop: Workshop, task: Task, target: Target, plan: Plan) -> Collected:
    """Settle and tidy up after the attempts on these slices that must lose by now. A second call finds nothing.

    Dying in here leaves files that the next call finds.
    """
    labels = {app: slice_.label for app, slice_ in zip(plan.app_ids, plan.slices, strict=True)}
    # The ledger first: it answers in a millisecond that there is nothing to ask the table about.
    if not shop.ledger.open_attempts(task.name, tuple(labels.values())) and not shop.ledger.undiscarded(task.name):
        return Collected(task.name, 0, (), ())
    published = target.published(task.target, plan.app_ids)
    settle_passed(shop, task, target, labels, published)
    generations = {label: published.generations[app] for app, label in labels.items()}
    files, done, kept = 0, [], []
    for attempt in shop.ledger.undiscarded(task.name):
        if not {slice_.label for slice_ in attempt.slices} & set(generations):
            continue
        if never_looked(attempt) or passed_at(attempt, generations) is not None:
            files += target.discard(task.target, attempt.id, _reach(shop, task, attempt))
            shop.ledger.discarded(attempt.id)
            done.append(attempt.id)
        else:
            kept.append(attempt.id)
    return Collected(task.name, files, tuple(done), tuple(kept))


def collect_all(shop: Workshop, session: Any) -> tuple[Collected, ...]:
    """`twice gc`: every task whose attempts may have left something."""
    found = []
    for name, labels in sorted(_left_behind(shop).items()):
        task = shop.project.tasks.get(name)
        if task is None:
            continue  # its declaration is gone; VACUUM has what it left
        slices = _named(task, sorted(labels))
        if slices:
            plan = make_plan(shop.project.id, task, slices)
            found.append(collect_passed(shop, task, shop.target_of(task.target, session), plan))
    return tuple(found)


def _left_behind(shop: Workshop) -> dict[str, set[str]]:
    labels: dict[str, set[str]] = {}
    for attempt in (*shop.ledger.undiscarded(), *shop.ledger.open_attempts()):
        labels.setdefault(attempt.task, set()).update(slice_.label for slice_ in attempt.slices)
    return labels


def _reach(shop: Workshop, task: Task, attempt: AttemptRecord) -> tuple[Slice, ...]:
    """Where in the table its files may lie."""
    slices = _named(task, [slice_.label for slice_ in attempt.slices])
    return make_plan(shop.project.id, task, slices).reach


def _named(task: Task, labels: list[str]) -> tuple[Slice, ...]:
    """The slices with these labels, without those the task's scope no longer has."""
    found = []
    for label in labels:
        try:
            found.append(slice_named(task.scope, label))
        except UsageError:
            continue
    return tuple(found)
