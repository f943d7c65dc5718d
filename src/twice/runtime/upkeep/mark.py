"""Where an incremental task is, and setting that back (or forward) on purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twice.core.failure.failpoints import Point, hit
from twice.core.ledger.record import AttemptState, Facts
from twice.core.ports import Lost, Target
from twice.core.results.run import RunRequest
from twice.core.since import Since, mark_text
from twice.core.table.mark import mark_of, version_of
from twice.core.table.token import CommitNote, Cursor
from twice.core.task import Task
from twice.core.write import AppendRows
from twice.errors import MAY_BE_MOVED, MOVED, DeclarationError, Superseded, UsageError
from twice.runtime.context import RunContext, Trace
from twice.runtime.run.attempt import claimed, reported
from twice.runtime.run.commit import commit
from twice.runtime.run.landing import Wording
from twice.runtime.run.lease import beating
from twice.runtime.staleness.kept import carried
from twice.runtime.table.owner import refusal_of
from twice.runtime.table.settle import look
from twice.runtime.table.stored_mark import cursor_changed, other_cursor, stored_mark, task_cursor
from twice.runtime.table.watched import still_ours
from twice.runtime.write_plan import make_write_plan

_WORDING = Wording(
    landed="moved",
    done="the mark is moved",
    doing="the mark was being moved",
    holds=MOVED,
    may_hold=MAY_BE_MOVED,
    next_look="It then records the reset.",
)


@dataclass(frozen=True)
class Mark:
    """`cursor` is the column that the mark counts, `source` its table (None where it was not recorded), `version` is
    the token's, `table_version` the table's. `at` is None before the first publish, and where it is not known what the
    token means; `unclear`: why a run would not go on from here. Where it is not `keyed`, rows that are read again come
    twice."""

    task: str
    cursor: str
    source: str | None
    at: str | None
    initial: str
    version: int
    table_version: int | None
    keyed: bool
    unclear: str | None = None

    @property
    def counts(self) -> Cursor:
        return Cursor(self.cursor, self.source)


@dataclass(frozen=True)
class Reset:
    """Who moved a mark, from where to where, and why. Kept in the ledger with the attempt that did it."""

    to: str | None
    by: str
    reason: str


def show_mark(context: RunContext, task: Task) -> Mark:
    """As the target has it. Changes nothing. Raises TableTaken where a run would: another's mark is not this task's."""
    scope = incremental(task)
    context.progress.begins("reading the mark", task.name)
    target = context.target_of(task.target, context.engine.fresh())
    name = make_write_plan(context.project.id, task, (scope.only,)).token_names[0]
    published = target.published(task.target, (name,))
    refusal = refusal_of(context.project.id, task, published.owners)
    if refusal is not None:
        raise refusal.at(task.name)
    return _mark(context, task, target, published.generations[name], published.version)


def reset_mark(context: RunContext, task: Task, reset: Reset) -> tuple[Mark, Mark]:
    """The mark before and after. Rows from the new mark on are read by the next run; no row is touched here.

    It is a commit of the token alone, by compare-and-swap like any publish: a run that is under way when it lands
    loses. However it ends, the message about the mark is true. Dying in here has moved the mark or not; the next look
    records which.
    """
    scope = incremental(task)
    cursor = task_cursor(context.project, task, scope)
    aim = aim_of(task, reset.to)
    plan = make_write_plan(context.project.id, task, (scope.only,))
    plan = replace(plan, write=AppendRows(plan.slices))
    context.progress.begins("moving the mark", task.name)
    claim = claimed(context, task, plan, RunRequest("reset"))
    with reported(context, claim, Trace(context.clock), _WORDING) as landing, beating(context, claim) as heartbeat:
        target = context.target_of(task.target, context.engine.fresh())
        found = look(context, task, plan, target, claim.attempt)
        before = _mark(context, task, target, found.generations[scope.only.label], found.version)
        _check_movable(task, before)
        if before.version == aim and before.counts.same_as(cursor):
            context.ledger.close_attempt(claim.attempt, AttemptState.UNCHANGED, Facts(why="the mark is already there"))
            return before, before
        heartbeat.check(f"{task.name}[{scope.only.label}]")
        context.ledger.fix(claim, found.generations, {scope.only.label: aim})
        landing.staging = True
        staged = target.stage(task.target, None, plan, claim.attempt)
        story = _story(before, aim, reset)
        facts = Facts(inputs=carried(context.project, context.ledger, task, aim), why=story, notes=(story,))
        context.ledger.advance(claim, AttemptState.CLAIMED, AttemptState.PUBLISHING, facts)
        hit(Point.PUBLISHING)
        (name,) = plan.token_names
        note = CommitNote(claim.attempt, "reset", {name: aim}, cursor=cursor)
        end = commit(landing, target, staged, {name: before.version, **found.watched}, note)
        if isinstance(end, Lost):
            still_ours(context, task, plan, target, found.watched)
            raise _overtaken(task)
        hit(Point.AFTER_PUBLISH)
        landing.record()
        landing.remove_unused()
    return before, _mark(context, task, target, aim, end.version)


def aim_of(task: Task, to: str | None) -> int:
    """The token's version at that mark; left out, at the task's initial one."""
    scope = incremental(task)
    return version_of(scope.start if to is None else scope.parse(to))


def incremental(task: Task) -> Since:
    if not isinstance(task.scope, Since):
        raise UsageError(
            "this task keeps no mark: it is cut into slices",
            where=task.name,
            fix=f"To compute a slice again: twice restate {task.name} --date ….",
        )
    return task.scope


def _overtaken(task: Task) -> Superseded:
    return Superseded(
        "a run moved the mark meanwhile",
        now="The mark is where that run put it.",
        fix=f"Look with twice mark show {task.name}, then reset again.",
    )


def _check_movable(task: Task, mark: Mark) -> None:
    if mark.version == 0:
        raise UsageError(
            "nothing is published yet, so there is no mark to reset",
            where=task.name,
            now="The table is unchanged.",
            fix=f"The first run begins at initial={mark.initial}: twice run {task.name}.",
        )


def _story(before: Mark, aim: int, reset: Reset) -> str:
    at = "unknown" if before.at is None else before.at
    return f"mark reset from {at} to {mark_text(mark_of(aim))} by {reset.by}: {reset.reason}"


def _mark(context: RunContext, task: Task, target: Target, version: int, table_version: int | None) -> Mark:
    scope = incremental(task)
    keyed = task.write.kind != "append"
    own = task_cursor(context.project, task, scope)
    found = Mark(task.name, own.column, own.table, None, mark_text(scope.start), version, table_version, keyed)
    try:
        mark = stored_mark(context.ledger, task, scope, version)
    except DeclarationError as error:
        return replace(found, unclear=str(error))  # to say where it is, is the way out
    if mark is None:
        return found
    held = other_cursor(context, task, scope, version, target)
    if held is not None:
        unclear = str(cursor_changed(context.project, task, scope, version, held))
        return replace(found, cursor=held.column, source=held.table, at=mark_text(mark), unclear=unclear)
    return replace(found, at=mark_text(mark))
