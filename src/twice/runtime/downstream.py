"""What reads the slices of a backfill: the tasks below, slice by slice, in the order of their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twice.core.backfill import PlannedBatch, PlannedSlice
from twice.core.scope import Whole, slice_named
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.core.token import app_id
from twice.runtime.workshop import Workshop


def readers(
    shop: Workshop, task: Task, batches: Sequence[PlannedBatch], chosen: Iterable[Slice], session: Any
) -> tuple[list[PlannedBatch], list[str]]:
    """One batch for every slice of a task below that reads a slice of the plan, and notes. Each needs the batches that
    make what it reads. Whether its rows change is for its own run to find out."""
    numbers = {slice_.label: batch.number for batch in batches for slice_ in batch.slices}
    made: dict[str, dict[Slice, int]] = {task.name: {slice_: numbers[slice_.label] for slice_ in chosen}}
    more: list[PlannedBatch] = []
    notes: list[str] = []
    for below in shop.project.in_order():
        sources = [(up, made[up.name]) for up in shop.project.upstream(below) if made.get(up.name)]
        if not sources:
            continue
        if isinstance(below.scope, Since):
            notes.append(f"{below.name} is incremental and is not part of it: it goes on from its mark by itself")
            continue
        affected = _affected(shop, below, sources)
        if not affected:
            continue
        begun = len(batches) + len(more) + 1
        more += _planned(shop, below, affected, sources, begun, session)
        made[below.name] = {slice_: begun + at for at, slice_ in enumerate(sorted(affected))}
    return more, notes


def _affected(
    shop: Workshop, below: Task, sources: Sequence[tuple[Task, Mapping[Slice, int]]]
) -> dict[Slice, set[int]]:
    """The slices of the task below, and the batches each needs."""
    found: dict[Slice, set[int]] = {}
    for up, made in sources:
        reads = [source for source in below.inputs.values() if source.table.name == up.target.name]
        for source in reads:
            for slice_, number in made.items():
                for reader in _readers_of(shop, below, up, source, slice_):
                    found.setdefault(reader, set()).add(number)
    return found


def _readers_of(shop: Workshop, below: Task, up: Task, source: Read, slice_: Slice) -> tuple[Slice, ...]:
    if isinstance(below.scope, Whole):
        return (below.scope.only,)
    assert isinstance(below.scope, TimeScope), below.name
    if source.by is not None and _is_time_of(up, source.by):
        return below.scope.reading(slice_.start, slice_.end, source.before)
    # Read whole, or cut by a column that says nothing about the slice: every slice there is has read it.
    labels = [run.label for run in shop.ledger.runs(below.name) if run.generation]
    return tuple(slice_named(below.scope, label) for label in labels)


def _is_time_of(up: Task, column: str) -> bool:
    if not isinstance(up.scope, TimeScope):
        return False
    held = up.scope.held_in
    return column.lower() in (held.name.lower(), held.source.lower())


def _planned(
    shop: Workshop,
    below: Task,
    affected: Mapping[Slice, set[int]],
    sources: Sequence[tuple[Task, Mapping[Slice, int]]],
    number: int,
    session: Any,
) -> list[PlannedBatch]:
    ordered = sorted(affected)
    apps = [app_id(shop.project.id, below.first_name, slice_.label) for slice_ in ordered]
    held = shop.target_of(below.target, session).published(below.target, apps).generations
    why = f"it reads {', '.join(up.name for up, _ in sources)}"
    return [
        PlannedBatch(
            number + at,
            below.name,
            (PlannedSlice(slice_.label, "downstream", why, held[app]),),
            needs=tuple(sorted(affected[slice_])),
        )
        for at, (slice_, app) in enumerate(zip(ordered, apps, strict=True))
    ]
