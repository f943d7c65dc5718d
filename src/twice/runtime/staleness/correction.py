"""A correction must land: where its row is only as new as the table's, it wins. Then the order in which slices are
corrected counts, and it is the order of the slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from twice.core.backfill.plan import PlannedBatch
from twice.core.ledger.record import RunRecord
from twice.core.scope import slice_named
from twice.core.since import Since
from twice.core.table.token import Intention, Kind, token_name
from twice.core.task import Task
from twice.core.write import UpsertRows, WritePlan
from twice.runtime.context import RunContext
from twice.runtime.staleness.decide import SliceState, corrects
from twice.runtime.table.cut import stored_cut
from twice.runtime.table.stored_mark import reads_again


def winning_ties(
    context: RunContext, task: Task, plan: WritePlan, kind: Kind, states: Sequence[SliceState]
) -> WritePlan:
    """The write plan of this run: if it corrects, its rows win where they are equally new. Changes nothing."""
    verb = plan.write
    if not isinstance(verb, UpsertRows) or verb.newest_by is None:
        return plan
    again = isinstance(task.scope, Since) and reads_again(context.ledger, task, task.scope, states[0].generation)
    return replace(plan, write=replace(verb, wins_ties=True)) if again or corrects(kind, states) else plan


def in_slice_order(context: RunContext, batches: Sequence[PlannedBatch]) -> tuple[list[PlannedBatch], list[str]]:
    """Each batch that corrects rows of a merge needs the one before it, whatever order the others are taken in."""
    needs: dict[int, int] = {}
    chained = []
    for name in dict.fromkeys(batch.task for batch in batches):
        task = context.project.task(name)
        if task.write.newest_by is None:
            continue
        mine = [batch for batch in batches if batch.task == name]
        overwritten = _overwritten(context, task, [slice_.label for batch in mine for slice_ in batch.slices])
        runs = context.ledger.runs_of(task.name, [slice_.label for batch in mine for slice_ in batch.slices])
        code = context.code_hash(task)
        mine = [batch for batch in mine if _corrects(code, batch, runs, overwritten)]
        mine.sort(key=lambda batch: slice_named(task.scope, batch.slices[0].label).start)
        needs |= {after.number: before.number for before, after in pairwise(mine)}
        chained += [name] if len(mine) > 1 else []
    ordered = [
        replace(batch, needs=(*batch.needs, needs[batch.number])) if batch.number in needs else batch
        for batch in batches
    ]
    return ordered, [
        f"{name}: what is corrected is taken one slice after another, oldest first, since the last one wins where rows "
        "are equally new"
        for name in chained
    ]


def _corrects(code: str, batch: PlannedBatch, runs: Mapping[str, RunRecord], overwritten: frozenset[str]) -> bool:
    labels = [slice_.label for slice_ in batch.slices]
    if not overwritten.isdisjoint(labels):
        return True
    known = [runs[label] for label in labels if label in runs]
    present = Intention(code, None)
    states = [SliceState(run.label, run.generation, run.intention, present) for run in known]
    return corrects(batch.kind, states)


def _overwritten(context: RunContext, task: Task, labels: Sequence[str]) -> frozenset[str]:
    """Those that others may have overwritten (slices that were cut differently, a task that had the table), whatever
    the plan says of each: one that failed since is among them, and one that is planned for what it reads. A generation
    that is not on record may be a takeover's."""
    names = {label: token_name(context.project.id, task.first_name, label) for label in labels}
    target = context.target_of(task.target, context.engine.fresh())
    published = target.published(task.target, tuple(names.values()))
    cut, runs = stored_cut(context, task, target, published), context.ledger.runs_of(task.name, labels)
    held = {label: published.generations[name] for label, name in names.items()}
    versions = {label: run.version for label, run in runs.items() if run.generation == held[label]}
    return frozenset(
        label
        for label, generation in held.items()
        if generation and (label not in versions or cut.doubts(generation, versions[label]))
    )
