"""What reads slices that are made: the tasks below, slice by slice, in the order of their inputs. A backfill plans
them; a chain follows those that were published and are stale because of slices that it deals with.

Which slices read a slice follows from the ledger, unless a publish may have changed rows of any day (a merge). There
the table's log is asked what these publishes touched: to run all that was ever published would take longer every
night.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.backfill.plan import BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.ledger.record import KnownVersions
from twice.core.scope import slices_named
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.table.token import token_name
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.runtime.context import RunContext
from twice.runtime.staleness.decide import rerun_of
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.staleness.stale import readers_of, reads_of, reads_unknown, stale_slices
from twice.runtime.staleness.touched import newest_touch


@dataclass(frozen=True)
class _Reached:
    """Slices of one task that the backfill's range reaches: those it makes, by the batch that does, and the others."""

    made: Mapping[Slice, int]
    others: tuple[Slice, ...] = ()


def readers(
    context: RunContext, request: BackfillRequest, batches: Sequence[PlannedBatch], asked: Sequence[Slice], session: Any
) -> tuple[list[PlannedBatch], list[str]]:
    """One batch for every slice of a task below that reads a slice of these, and notes. Each needs the batches that
    make what it reads. Whether its rows change is for its own run to find out.

    A slice below that reads only slices of the range which are right already is in it if its status is one that
    the request asks for (stale, say): what it reads may have been made again before."""
    numbers = {slice_.label: batch.number for batch in batches for slice_ in batch.slices}
    made = {slice_: numbers[slice_.label] for slice_ in asked if slice_.label in numbers}
    first = context.project.task(request.task).name
    reached = {first: _Reached(made, tuple(slice_ for slice_ in asked if slice_ not in made))}
    more: list[PlannedBatch] = []
    notes: list[str] = []
    for below in context.project.in_order():
        sources = [(up, reached[up.name]) for up in context.project.upstream(below) if up.name in reached]
        if not sources or below.name == first:
            continue
        if isinstance(below.scope, Since):
            if any(found.made for _, found in sources):
                notes.append(f"{below.name} is incremental and is not part of it: it continues from its mark by itself")
            continue
        affected = _affected(context, below, [(up, found.made) for up, found in sources])
        others = _others(context, below, [(up, found.others) for up, found in sources], affected)
        chosen = _with_status(context, below, others, request, session)
        planned = {**_reading(context, below, affected, [up.name for up, _ in sources], session), **chosen}
        first_number = len(batches) + len(more) + 1
        numbered = {slice_: first_number + at for at, slice_ in enumerate(sorted(planned))}
        more += [
            PlannedBatch(number, below.name, (planned[slice_],), needs=tuple(sorted(affected.get(slice_, ()))))
            for slice_, number in numbered.items()
        ]
        reached[below.name] = _Reached(numbered, tuple(slice_ for slice_ in others if slice_ not in numbered))
    return more, notes


def _affected(
    context: RunContext, below: Task, sources: Sequence[tuple[Task, Mapping[Slice, int]]]
) -> dict[Slice, set[int]]:
    """The slices of the task below, and the batches each needs."""
    found: dict[Slice, set[int]] = {}
    for up, made in sources:
        for source in reads_of(context.project, below, up):
            for slice_, number in made.items():
                for reader in readers_of(context.ledger, below, up, source, slice_):
                    found.setdefault(reader, set()).add(number)
    return found


def _others(
    context: RunContext,
    below: Task,
    sources: Sequence[tuple[Task, Sequence[Slice]]],
    affected: Mapping[Slice, set[int]],
) -> tuple[Slice, ...]:
    """What reads slices of the range that are right already."""
    found = {
        reader
        for up, slices in sources
        for source in reads_of(context.project, below, up)
        for slice_ in slices
        for reader in readers_of(context.ledger, below, up, source, slice_)
    }
    return tuple(sorted(found - affected.keys()))


def _with_status(
    context: RunContext, below: Task, others: Sequence[Slice], request: BackfillRequest, session: Any
) -> dict[Slice, PlannedSlice]:
    """Those with a status that the request asks for. What was never published below was not asked for."""
    wanted = {status for status in request.only if status in ("stale", "failed")}
    if not wanted or not others:
        return {}
    found = zip(others, slice_statuses(context, below, others, session), strict=True)
    return {slice_: planned for slice_, planned in found if planned.status in wanted}


def _reading(
    context: RunContext, below: Task, affected: Mapping[Slice, set[int]], sources: Sequence[str], session: Any
) -> dict[Slice, PlannedSlice]:
    """The slices of the task below that read a slice of the backfill plan, with what its table holds of each."""
    if not affected:
        return {}
    names = {slice_: token_name(context.project.id, below.first_name, slice_.label) for slice_ in affected}
    held = context.target_of(below.target, session).published(below.target, tuple(names.values())).generations
    why = f"it reads {', '.join(sources)}"
    return {slice_: PlannedSlice(slice_.label, "downstream", why, held[name]) for slice_, name in names.items()}


def followed(context: RunContext, task: Task, due: Mapping[str, set[str]]) -> dict[str, Slice]:
    """By label. `due`: slices of other tasks, by task and label."""
    found = {each.slice.label: each.slice for each in stale_slices(context.project, context.ledger, task, due=due)}
    if rerun_of(task) == "never" or not isinstance(task.scope, TimeScope):
        return found
    for up in context.project.upstream(task):
        for source in reads_of(context.project, task, up) if due.get(up.name) else ():
            if reads_unknown(task, up, source):
                found.update((each.label, each) for each in _touched_since(context, task, up, source, due[up.name]))
    return found


def _touched_since(context: RunContext, task: Task, up: Task, source: Read, due: set[str]) -> Iterator[Slice]:
    """Slices of the task that read rows which a publish of these slices changed after they looked. In doubt all that
    looked before one: where the log does not say which rows it changed, or does not reach back so far. Where
    not all publishes of these are on record (they were pruned), each commit before may be one."""
    pins = context.ledger.pins(task.name, str(context.project.located(up.target)))
    made = context.ledger.published_versions(up.name, sorted(due))
    if not pins or made == KnownVersions():
        return
    oldest = min(pin.version for pin in pins.values())
    later = {version for version in made.versions if version > oldest}
    doubtful = made.complete_from is None or oldest < made.complete_from - 1
    since = oldest if doubtful else min(later or made.versions) - 1
    now = context.target_of(up.target, context.engine.fresh()).touched(up.target, since, source.by)
    if now is None:
        return
    if doubtful:
        later.add(now.version if made.complete_from is None else made.complete_from - 1)
    newest = dict.fromkeys(pins, max(later, default=-1))
    slices = slices_named(task.scope, pins)
    if now.spans is not None:
        theirs = tuple(span for span in now.spans if made.may_include(span.version))
        newest = newest_touch(task, slices, source, replace(now, spans=theirs))
    for slice_ in slices:
        pin = pins[slice_.label]
        if now.is_another(pin.version, pin.id) or newest.get(slice_.label, -1) > pin.version:
            yield slice_
