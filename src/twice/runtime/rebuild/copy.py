"""The rows of a table copied, as they are, into its side table: how a table gets other columns or another layout where
its slices cannot be computed again. What is copied takes the table's place only if the table has not moved since."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from twice.core.failure.failpoints import Point, hit
from twice.core.ports import Frame, Landed, Shape, Staged, Target
from twice.core.results.summary import counted
from twice.core.slice import WHOLE
from twice.core.table.rebuild import COPIED, rebuild_token, side_table, side_token
from twice.core.table.token import CommitNote
from twice.core.task import Task
from twice.core.write import AppendRows, ReplaceTable, WritePlan
from twice.errors import UNCHANGED, Superseded, TableChanged
from twice.runtime.context import RunContext
from twice.runtime.rebuild.columns import CopiedColumns
from twice.runtime.rebuild.exchange import WORDING, Exchanged
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan
from twice.runtime.result.pins import Pins
from twice.runtime.run.commit import commit
from twice.runtime.run.landing import Landing, settling
from twice.runtime.table.side_table import SideTable, drop_side, side_note
from twice.runtime.write_plan import layout_of, make_write_plan


@dataclass(frozen=True)
class Copied:
    """The side table at its version `at`, with the rows that the table had at `read_at`. Its own commit is of the same
    `attempt` as the exchange: so whoever finds it knows what that one has staged, and whether it landed."""

    attempt: str
    read_at: int
    at: int
    side: str | None
    rows: int

    def stage(self, target: Target, task: Task, plan: WritePlan, prefix: str) -> Staged:
        """The exchange, for the tokens of the plan. Dying here leaves links or copies named by the attempt."""
        verb = ReplaceTable(plan.slices, side_table(task.target).name, self.at, prefix, self.side, self.rows)
        staged = target.stage(task.target, None, replace(plan, write=verb, read_at=self.read_at), self.attempt)
        if staged.rows != self.rows:
            raise TableChanged(
                f"{self.rows:,} rows were copied, and {staged.rows:,} are in the copy", fix="Run it again."
            )
        return staged


def copy_aside(
    context: RunContext, task: Task, session: Any, result: Shape, conform: Callable[[Frame], Frame]
) -> Copied:
    """All rows of the table, with the columns and the layout that the task needs, in a new side table.
    `result`: all the columns; `conform` gives a frame those of them that are not computed. Dying here leaves the side
    table, which the next call drops."""
    target, side = context.target_of(task.target, session), side_table(task.target)
    context.progress.begins("copying its rows", task.name)
    drop_side(context, task, target)
    pins, layout = Pins(context, session), layout_of(context.project.id, task)
    frame, _ = context.engine.shape(conform(pins.open(task.target)), layout.slice_column)
    read_at = pins.version(task.target)
    assert read_at is not None, task.target
    into = target.prepare(side, result, layout, False)
    token, attempt = side_token(context.project.id, task), uuid.uuid4().hex
    plan = WritePlan(AppendRows((WHOLE,), gathered=True), (WHOLE,), (token,))
    staged = target.stage(side, frame, plan, attempt, into=into)
    end = target.commit(staged, {token: 0}, side_note(context, task, "adopt", attempt, COPIED))
    if not isinstance(end, Landed):
        raise Superseded(f"{side} was filled by another process", where=task.name, now=UNCHANGED, fix="Run it again.")
    return Copied(staged.attempt, read_at, end.version, target.published(side, ()).id, staged.rows)


def copied_before(rebuild: Rebuild, target: Target, side: SideTable) -> int | None:
    """The version at which the copy that a dead process has left took the table's place, which is on record then; None
    if it did not."""
    task, name = rebuild.task, rebuild_token(rebuild.context.project.id, rebuild.task)
    generation = target.published(task.target, (name,)).generations[name]
    note = target.provenance(task.target, name, generation) if generation else None
    if note is None or note.attempt != side.attempt:
        return None
    _record(rebuild.context, task, note)
    return note.version


def exchange_copy(rebuild: Rebuild, plan: RebuildPlan, columns: CopiedColumns) -> Exchanged | TableChanged | None:
    """The whole table copied, and exchanged in one commit that compares every token of the task and moves none of them:
    generations, and a mark, stay. None, and nothing changed, if anything was published since it was read; or the error,
    if others changed it.

    Dying in here has exchanged the table or not, and the next call finds which by its token.
    """
    context, task = rebuild.context, rebuild.task
    mine = rebuild_token(context.project.id, task)
    tokens = make_write_plan(context.project.id, task, plan.copied)
    slices, watched = (replace(WHOLE, label=mine),), tokens.compared
    write = WritePlan(AppendRows(slices), slices, (mine,), watched=watched)
    with context.session() as session:
        target = rebuild.target(session)
        before = target.published(task.target, write.compared)
        copied = copy_aside(context, task, session, columns.result, lambda table: columns.of(context, table))
        hit(Point.AFTER_COMPUTE)
        context.progress.begins("exchanging the table", task.name)
        why = f"{counted(copied.rows, 'row')} copied as they are, {plan.copies_all}"
        note = CommitNote(copied.attempt, "rebuild", {mine: before.generations[mine] + 1}, why=why)
        landing = Landing(task.name, lambda *_: _record(context, task, note), WORDING)
        try:
            with settling(landing):
                staged = copied.stage(target, task, write, rebuild.token(""))
                hit(Point.PUBLISHING)
                end = commit(landing, target, staged, before.generations, note)
                if not isinstance(end, Landed):
                    return None
                hit(Point.AFTER_PUBLISH)
                landing.record()
                landing.remove_unused()
                return Exchanged(end.version, len(plan.copied), copied.rows)
        except TableChanged as error:
            if landing.absent:
                return error
            raise


def _record(context: RunContext, task: Task, note: CommitNote) -> None:
    context.ledger.record_takeover(task.name, note.attempt, context.holder, note.why or "", "rebuild")
