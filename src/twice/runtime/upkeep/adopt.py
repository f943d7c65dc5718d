"""adopt: a table that was made elsewhere becomes a task's, as it is or rewritten with the right partitioning, and days
that are in it already are declared published, so that no run computes them again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from twice.core.failure.failpoints import Crash
from twice.core.ledger.found import FoundPublish
from twice.core.names.first_few import first_few
from twice.core.ports import Frame, Landed, Shape, Staged, Target
from twice.core.results.summary import counted
from twice.core.slice import WHOLE
from twice.core.table.owner import CUTS, LAST_TAKEOVER, TOKENS
from twice.core.table.rebuild import side_table
from twice.core.table.token import ADOPTED, CommitNote, Intention, token_name
from twice.core.task import Task
from twice.core.write import AppendRows, ReplaceTable, WritePlan
from twice.errors import UNCHANGED, StageMismatch, Superseded, TableChanged, UsageError
from twice.runtime.context import RunContext
from twice.runtime.rebuild.copy import copy_aside
from twice.runtime.run.commit import commit
from twice.runtime.run.landing import Landing, Wording, settling
from twice.runtime.table.cut import stored_cut
from twice.runtime.table.owner import refusal_of
from twice.runtime.table.side_table import drop_copy, held_side
from twice.runtime.upkeep.examine import Found, examine, names_of, watched_by
from twice.runtime.write_plan import layout_of

_WORDING = Wording(
    landed="adopted",
    done="the table is adopted",
    doing="the table was being adopted",
    holds="The table is this task's, and its slices are published.",
    may_hold="The table may already be adopted.",
    next_look="The table records it.",
)


@dataclass(frozen=True)
class AdoptRequest:
    """`published`: `2026-01-01..2026-06-09`, both ends included; None: no slice is declared published. `lay_out`: the
    rows are written again where the table's own layout does not do."""

    by: str
    reason: str
    published: str | None = None
    lay_out: bool = False


@dataclass(frozen=True)
class Adoption:
    task: str
    table: str
    version: int | None
    published: tuple[str, ...]
    already: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    laid_out: bool = False
    rows: int = 0


def adopt(context: RunContext, task: Task, request: AdoptRequest) -> Adoption:
    """One commit: tokens alone, or (`lay_out`) with all rows in their new layout. A second call declares what is not
    declared yet. Dying in here has adopted the table or not, as its tokens say; a table beside it may be left, which
    the next call drops, and so do `twice rebuild` and `twice gc`."""
    context.progress.begins("looking at the table", task.name)
    with context.session() as session:
        drop_copy(context, task, context.target_of(task.target, session))
    found = examine(context, task, request.published)
    if found.why is not None and not request.lay_out:
        raise UsageError(
            f"{found.why}",
            where=task.name,
            now=UNCHANGED,
            fix=f"Let twice rewrite its {counted(found.rows, 'row')} with the right partitioning, in one commit: add "
            "--lay-out. Or declare a scope over the columns that the table is partitioned by, or Whole() if there are "
            "none.",
        )
    if not found.slices and found.why is None:
        return Adoption(task.name, str(task.target), None, (), found.already, found.empty, rows=found.rows)
    with context.session() as session:
        target = context.target_of(task.target, session)
        with _dropping_copy(context, task, target, found):
            staged = _stage(context, task, target, found, session)
            version = _declare(context, task, target, staged, request, found)
        _refuse_shared(context, task, target)
    labels = tuple(slice_.label for slice_ in found.slices)
    laid_out = found.why is not None
    return Adoption(task.name, str(task.target), version, labels, found.already, found.empty, laid_out, found.rows)


def _refuse_rebuild(context: RunContext, task: Task, target: Target) -> None:
    """The work of a rebuild is not thrown away by another command."""
    held = held_side(context, task, target)
    if held is not None and not held.copy:
        raise UsageError(
            f"{side_table(task.target)} is being filled by a rebuild of {task.name}, or was left by one",
            where=task.name,
            now=UNCHANGED,
            fix=f"End it first (twice rebuild {task.name}), or drop what it filled: twice rebuild {task.name} "
            "--abandon.",
        )


@contextmanager
def _dropping_copy(context: RunContext, task: Task, target: Target, found: Found) -> Iterator[None]:
    """However it ends, but by a kill. What cannot be dropped now is left to the next call: it never hides how the
    adoption ended."""
    try:
        yield
    except BaseException as error:
        if found.why is not None and not isinstance(error, Crash):
            with suppress(Exception):
                drop_copy(context, task, target)
        raise
    if found.why is not None:
        with suppress(Exception):
            drop_copy(context, task, target)


def _refuse_shared(context: RunContext, task: Task, target: Target) -> None:
    """Another task's first publish moves no token that this one knows: it is seen afterwards."""
    owners = target.published(task.target, names_of(context, task, ())).owners
    refusal = refusal_of(context.project.id, task, owners)
    if refusal is not None:
        refusal.what = f"while it was adopted, another task published to it: {refusal.what}"
        refusal.now = "The table is adopted, and holds slices of both."
        raise refusal.at(task.name)


def _stage(context: RunContext, task: Task, target: Target, found: Found, session: Any) -> Staged:
    """Tokens alone; or, where the layout does not do, the table's own rows in a side table that has the right one."""
    names = names_of(context, task, found.slices)
    slices = tuple(replace(WHOLE, label=name) for name in names)
    if found.why is None:
        watched = watched_by(context, task)
        plan = WritePlan(AppendRows(slices), slices, names, read_at=found.version, watched=watched)
        return target.stage(task.target, None, plan, uuid.uuid4().hex, into=found.into)
    _refuse_rebuild(context, task, target)
    target.check_exchange(task.target)
    copied = copy_aside(context, task, session, found.shape, partial(_given, context, task, found.shape))
    if copied.read_at != found.version:
        raise _written_meanwhile(task)
    if copied.rows != found.rows:
        raise StageMismatch(
            f"{task.target} had {found.rows:,} rows when it was looked at, and {copied.rows:,} were copied",
            where=task.name,
            now=UNCHANGED,
            fix="Let others who write it end, then adopt it again.",
        )
    context.progress.begins("exchanging the table", task.name)
    plan = WritePlan(AppendRows(slices), slices, names, watched=tuple(sorted(found.tokens.keys() - set(names))))
    return copied.stage(target, task, plan, token_name(context.project.id, task.first_name, ""))


def _given(context: RunContext, task: Task, result: Shape, held: Frame) -> Frame:
    """The rows with the result's columns. One that says which slice a row is of, and that the table lacks, is computed
    from them, not NULL."""
    wanted, engine = layout_of(context.project.id, task).slice_column, context.engine
    there = {column.name.lower() for column in engine.shape(held, None)[1].columns}
    added = wanted.name.lower() if wanted is not None and wanted.name.lower() not in there else None
    return engine.conform(held, Shape(tuple(each for each in result.columns if each.name.lower() != added)))


def _declare(
    context: RunContext, task: Task, target: Target, staged: Staged, request: AdoptRequest, found: Found
) -> int:
    """Compared with what the look has found, not with what is there by now. Dying in here has adopted the table or
    not."""
    context.progress.begins("declaring it published", task.name)
    plan = staged.plan
    expected = {name: found.tokens[name] for name in plan.compared}
    moved = {name: expected[name] + 1 for name in plan.token_names}
    why = f"{task.target} adopted by {request.by} ({_story(plan)}): {request.reason}"
    intentions = {name: Intention(ADOPTED, ADOPTED) for name in plan.token_names[1:]}
    move = stored_cut(context, task, target, target.published(task.target, plan.compared)).move
    note = CommitNote(staged.attempt, "adopt", moved, intentions, why=why, beside=move if intentions else {})
    landing = Landing(task.name, lambda facts, _: _record(context, task, note, facts.version), _WORDING)
    try:
        with settling(landing):
            end = commit(landing, target, staged, expected, note)
            if isinstance(end, Landed):
                landing.record()
                landing.remove_unused()
                return end.version
    except TableChanged as error:
        if landing.absent:
            raise _written_meanwhile(task) from error
        raise
    raise Superseded(
        _what_moved(expected, end.published.generations),
        where=task.name,
        now="Nothing was declared published by this call.",
        fix="Adopt it again: it looks first.",
    )


def _what_moved(expected: Mapping[str, int], found: Mapping[str, int]) -> str:
    names = sorted(name for name, generation in found.items() if generation != expected.get(name, 0))
    labels = [name.split("/", 3)[3] for name in names if name.startswith(TOKENS)]
    if labels:
        return f"{first_few(labels)} {'was' if len(labels) == 1 else 'were'} published while it was adopted"
    if LAST_TAKEOVER in names:
        return "the table was taken over by a task while it was adopted"
    if any(name.startswith(CUTS) for name in names):
        return "slices that are cut differently were published while it was adopted"
    return "another call adopted the table at the same moment"


def _written_meanwhile(task: Task) -> TableChanged:
    return TableChanged(
        f"others wrote to {task.target} after it was looked at",
        where=task.name,
        now="It is not adopted.",
        fix="Stop the job that writes it, then adopt it again.",
    )


def _record(context: RunContext, task: Task, note: CommitNote, version: int | None) -> None:
    prefix = token_name(context.project.id, task.first_name, "")
    found = [
        FoundPublish(name.removeprefix(prefix), generation, note.attempt, note.intentions[name], version)
        for name, generation in note.generations.items()
        if name in note.intentions
    ]
    context.ledger.record_found(task.name, found)
    context.ledger.record_takeover(task.name, note.attempt, context.holder, note.why or "", "adopt")


def _story(plan: WritePlan) -> str:
    slices = f"{counted(len(plan.token_names) - 1, 'slice')} declared published"
    return f"rewritten with the right partitioning, {slices}" if isinstance(plan.write, ReplaceTable) else slices
