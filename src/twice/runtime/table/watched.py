"""Is the table still the task's, and cut as the run found it? A commit compares the tokens that say so: a takeover, or
a deployment with another scope, may land between a look and its commit (decisions 0019 and 0024).
"""

from __future__ import annotations

from collections.abc import Mapping

from twice.core.ports import Lost, Target
from twice.core.scope import cut_of
from twice.core.table.owner import LAST_TAKEOVER, owner_of
from twice.core.task import Task
from twice.core.write import WritePlan, cut_text
from twice.errors import Superseded
from twice.runtime.context import RunContext
from twice.runtime.table.cut import newest_cut, stored_cut
from twice.runtime.table.owner import describe_owner, refusal_of

_NOT_PUBLISHED = "None of this run's rows are in the table."


def only_watched_moved(end: Lost, expected: Mapping[str, int]) -> bool:
    """Whether a commit lost although every slice is at its expected generation."""
    return all(end.published.generations[name] == generation for name, generation in expected.items())


def still_ours(
    context: RunContext, task: Task, plan: WritePlan, target: Target, seen: Mapping[str, int]
) -> tuple[dict[str, int], Mapping[str, int]]:
    """The tokens to watch as they are now, and those that a publish must write for its cut: it may be tried again.
    Raises Superseded if the table was taken over since these tokens were `seen`, or is cut differently. Only reads."""
    published = target.published(task.target, plan.compared)
    watched = {name: published.generations[name] for name in plan.watched}
    refusal = refusal_of(context.project.id, task, published.owners)
    if watched[LAST_TAKEOVER] != seen[LAST_TAKEOVER]:
        taker = published.owners.taken_by(owner_of(context.project.id, task))
        by = "" if taker is None else f" by {describe_owner(context.project.id, taker)}"
        raise Superseded(
            f"{task.target} was taken over{by} while this run was at work",
            now=_NOT_PUBLISHED,
            fix="Run it again: it looks first whose the table is." if refusal is None else refusal.fix,
        )
    held, mine = published.owners.cuts.get(owner_of(context.project.id, task), {}), cut_of(task.scope)
    if held and newest_cut(held) != mine:
        raise _cut_otherwise(task, held, mine)
    if refusal is not None:
        raise refusal
    return watched, stored_cut(context, task, target, published).move


def _cut_otherwise(task: Task, held: Mapping[str, int], mine: str) -> Superseded:
    other = max((cut for cut in held if cut != mine), key=lambda cut: held[cut])
    return Superseded(
        f"{task.target} is cut by {cut_text(other)} since version {held[other] - 1}, and this run, which began before, "
        f"cuts it by {cut_text(mine)}",
        now=_NOT_PUBLISHED,
        fix=f"Was {task.name} deployed with another scope? Then let that deployment run it. If this run's scope is the "
        "right one, run it again: it looks first.",
    )
