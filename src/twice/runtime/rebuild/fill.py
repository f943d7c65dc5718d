"""Filling the side table: slices computed by the task's own code, or copied from its table, each by a run of its own.

A run looks before it computes, so what is filled already is not filled again, whenever the process before it died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count

from twice.core.backfill.plan import batch_size, neighbours
from twice.core.ports import Frame
from twice.core.results.run import RunRequest, RunResult
from twice.core.results.summary import counted
from twice.core.slice import Slice
from twice.core.table.rebuild import COPIED, fill_number
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.errors import Interrupted, TwiceError, followed_by
from twice.runtime.backfill.backfill import why_single
from twice.runtime.context import RunContext
from twice.runtime.rebuild.columns import CopiedColumns
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan
from twice.runtime.run.run_task import run_task


@dataclass(frozen=True)
class Filled:
    """One run of the fill has ended: `copied` or computed, with its result or its error."""

    slices: tuple[Slice, ...]
    copied: bool
    result: RunResult | None = None
    error: TwiceError | None = None


Report = Callable[[Filled], None]


@dataclass(frozen=True)
class FillRequest:
    """`columns`: of copied rows, if there are any; `parallel`: so many slices at once; `report` hears of each;
    `require_side` raises where the side table is not there any more."""

    columns: CopiedColumns | None
    parallel: int
    report: Report
    require_side: Callable[[], None]


_Work = tuple[RunContext, Task, tuple[Slice, ...]]
"""Slices that are filled by one run: in its context, by the task that computes or copies them."""


def fill(rebuild: Rebuild, plan: RebuildPlan, request: FillRequest) -> None:
    """Every slice of the plan is in the side table when this returns. One that fails does not stop the rest; the first
    error is raised at the end. Dying in here leaves the rest to the next call."""
    rebuild.aside.ledger.lift(rebuild.side_task.name, [slice_.label for slice_ in (*plan.computed, *plan.copied)])
    work, errors = _work(rebuild, plan, request), list[TwiceError]()
    total, before = len(plan.computed) + len(plan.copied), count()
    at = [sum(len(slices) for _, _, slices in work[:n]) + 1 for n in range(len(work))]

    def one(item: _Work) -> None:
        context = item[0]
        context.progress.counts(at[next(before)], total, "slice")
        try:
            done = _filled(rebuild, plan, request, item)
        finally:
            context.progress.ends()
        errors.extend([done.error] if done.error is not None else [])
        request.report(done)

    # Keyed rows of several slices meet: in their order, as a backfill has them.
    if request.parallel == 1 or rebuild.task.write.kind != "replace":
        for item in work:
            one(item)
    else:
        with ThreadPoolExecutor(request.parallel) as threads:
            list(threads.map(one, work))
    if errors:
        raise _failed(rebuild.task, errors)


def _work(rebuild: Rebuild, plan: RebuildPlan, request: FillRequest) -> list[_Work]:
    """What is copied comes first."""
    work: list[_Work] = [(rebuild.aside, rebuild.side_task, group) for group in _groups(rebuild, plan.computed)]
    if not plan.copied:
        return work
    assert request.columns is not None, plan.copied
    copying = _copying(rebuild, request.columns)
    context = replace(rebuild.aside, code_hash=lambda _: COPIED, code_parts=lambda _: {})
    return [(context, copying, group) for group in neighbours(plan.copied, batch_size("auto", None))] + work


def _filled(rebuild: Rebuild, plan: RebuildPlan, request: FillRequest, item: _Work) -> Filled:
    """One run. Dying in it leaves its slices to the next call."""
    context, task, slices = item
    done = Filled(slices, context is not rebuild.aside)
    try:
        request.require_side()
        return replace(
            done, result=run_task(context, task, slices, replace(_request(plan, slices), wait=rebuild.patience))
        )
    except Interrupted as interrupt:
        _in_words_of(rebuild, interrupt.error)
        raise
    except TwiceError as error:
        return replace(done, error=_in_words_of(rebuild, error))


def _request(plan: RebuildPlan, slices: Sequence[Slice]) -> RunRequest:
    """What was filled for another generation is filled again, whatever it was filled from."""
    outdated = set(plan.filling.outdated)
    again = any(slice_.label in outdated for slice_ in slices)
    at_least = {slice_.label: fill_number(plan.published[slice_.label]) for slice_ in slices}
    return RunRequest("restate" if again else "run", silent=True, at_least=at_least)


def _groups(rebuild: Rebuild, slices: tuple[Slice, ...]) -> list[tuple[Slice, ...]]:
    if not isinstance(rebuild.task.scope, TimeScope):
        return [(slice_,) for slice_ in slices]
    with rebuild.aside.session() as session:
        single = why_single(rebuild.aside, rebuild.side_task, session) is not None
    return neighbours(slices, 1 if single else batch_size("auto", None))


def _copying(rebuild: Rebuild, columns: CopiedColumns) -> Task:
    """A task that copies slices of the table as they are, with the columns of the new result."""
    task, context = rebuild.task, rebuild.aside

    def copied(table: Frame) -> Frame:
        return columns.of(context, table)

    by = task.scope.column if isinstance(task.scope, TimeScope) else None
    inputs = {"table": Read(task.target, by=by)}
    return replace(rebuild.side_task, inputs=inputs, function=copied, audits=(), sql=None, parameters=())


def _in_words_of(rebuild: Rebuild, error: TwiceError) -> TwiceError:
    """Nobody declared the task that fills the side table: it is this one, and its table is as it was."""
    aside, named = rebuild.side_task.name, rebuild.task.name
    error.where = error.where.replace(aside, named)
    error.reword(lambda text: text.replace(aside, named))
    error.now = "The table is unchanged; the copy that is being built stays."
    return error


def _failed(task: Task, errors: Sequence[TwiceError]) -> TwiceError:
    first = errors[0]
    if len(errors) > 1:
        first.fix = followed_by(first.fix, f"({counted(len(errors), 'slice or batch', 'slices or batches')} failed.)")
    first.fix = followed_by(first.fix, f"Then run twice rebuild {task.name} again: it goes on from here.")
    return first
