"""Where an incremental task is, and setting that back (or forward) on purpose."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from twice.core.failpoints import Point, hit
from twice.core.mark import mark_of, version_of
from twice.core.ports import Lost, Target
from twice.core.record import Claim, Facts
from twice.core.run import AttemptState
from twice.core.since import Since, told
from twice.core.task import Task
from twice.core.token import Note
from twice.core.write import AppendRows, Plan
from twice.errors import DeclarationError, Superseded, UsageError
from twice.runtime.attempt import reported
from twice.runtime.kept_mark import kept_mark
from twice.runtime.lease import beating, claim_slices
from twice.runtime.plan import make_plan
from twice.runtime.settle import Found, look
from twice.runtime.workshop import Trace, Workshop


@dataclass(frozen=True)
class Mark:
    """`at` is None before the first publish, and where nobody can say what the token means (`unclear` says why);
    `version` is the token's, `table_version` the table's. Where it is not `keyed`, rows that are read again come
    twice."""

    task: str
    cursor: str
    at: str | None
    initial: str
    version: int
    table_version: int | None
    keyed: bool
    unclear: str | None = None


@dataclass(frozen=True)
class Reset:
    """Who moved a mark, from where to where, and why. Kept in the ledger with the attempt that did it."""

    to: str | None
    by: str
    reason: str


def show_mark(shop: Workshop, task: Task) -> Mark:
    """As the target has it. Changes nothing."""
    scope = incremental(task)
    target = shop.target_of(task.target, shop.engine.fresh())
    app = make_plan(shop.project.id, task, (scope.only,)).app_ids[0]
    published = target.published(task.target, (app,))
    return _mark(shop, task, scope, published.generations[app], published.version)


def reset_mark(shop: Workshop, task: Task, reset: Reset) -> tuple[Mark, Mark]:
    """The mark before and after. Rows from the new mark on are read by the next run; no row is touched here.

    It is a commit of the token alone, by compare-and-swap like any publish: a run that is under way when it lands
    loses. Dying in here has moved the mark or not; the next look records which.
    """
    scope = incremental(task)
    aim = version_of(scope.start if reset.to is None else scope.parse(reset.to))
    plan = make_plan(shop.project.id, task, (scope.only,))
    plan = replace(plan, write=AppendRows(plan.slices))
    claim = claim_slices(shop, task, plan, "reset", uuid.uuid4().hex, None)
    trace = Trace(shop.clock)
    with beating(shop, claim) as heartbeat, reported(shop, claim, trace):
        target = shop.target_of(task.target, shop.engine.fresh())
        found = look(shop, task, plan, target, claim.attempt)
        before = _mark(shop, task, scope, found.generations[scope.only.label], found.version)
        _check_movable(task, before)
        if before.version == aim:
            shop.ledger.close_attempt(claim.attempt, AttemptState.UNCHANGED, Facts(why="the mark is there already"))
            return before, before
        heartbeat.check(f"{task.name}[{scope.only.label}]")
        version = _move(shop, task, target, plan, claim, found, aim, _story(before, aim, reset))
    return before, _mark(shop, task, scope, aim, version)


def incremental(task: Task) -> Since:
    if not isinstance(task.scope, Since):
        raise UsageError(
            "this task keeps no mark: it is cut into slices",
            where=task.name,
            fix=f"To compute a slice again: twice restate {task.name} --date ….",
        )
    return task.scope


def _move(
    shop: Workshop, task: Task, target: Target, plan: Plan, claim: Claim, found: Found, aim: int, story: str
) -> int:
    """Dying before the commit moves nothing; after it, the mark is moved and the ledger behind."""
    label, app = plan.slices[0].label, plan.app_ids[0]
    ledger = shop.ledger
    ledger.fix(claim, found.generations, {label: aim})
    staged = target.stage(task.target, None, plan, claim.attempt)
    ledger.advance(claim, AttemptState.CLAIMED, AttemptState.PUBLISHING, Facts(why=story, notes=(story,)))
    hit(Point.PUBLISHING)
    end = target.commit(staged, {app: found.generations[label]}, Note(claim.attempt, "reset", {app: aim}))
    if isinstance(end, Lost):
        raise Superseded(
            "a run moved the mark meanwhile",
            now="The mark is where that run put it.",
            fix=f"Look with twice mark show {task.name}, then reset again.",
        )
    hit(Point.AFTER_PUBLISH)
    # The one way back in the ledger too; a crash right after it is made good by the next look.
    ledger.forget(task.name, label)
    ledger.publish(claim.attempt, Facts(version=end.version), generations={label: aim})
    return end.version


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
    return f"mark reset from {at} to {told(mark_of(aim))} by {reset.by}: {reset.reason}"


def _mark(shop: Workshop, task: Task, scope: Since, version: int, table_version: int | None) -> Mark:
    keyed = not isinstance(task.write.compile(()), AppendRows)
    found = Mark(task.name, scope.cursor, None, told(scope.start), version, table_version, keyed)
    try:
        mark = kept_mark(shop.ledger, task, scope, version)
    except DeclarationError as error:
        return replace(found, unclear=str(error))  # to say where it is, is the way out
    return found if mark is None else replace(found, at=told(mark))
