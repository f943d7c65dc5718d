"""rebuild: fill the side table, exchange it for the table, drop what is left. Called after any end, it goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from twice.core.failure.failpoints import Point, hit
from twice.core.results.summary import counted
from twice.core.slice import Slice, labels_of
from twice.errors import Superseded, TableChanged, UsageError
from twice.runtime.rebuild.columns import CopiedColumns, copied_columns
from twice.runtime.rebuild.copy import copied_before, exchange_copy
from twice.runtime.rebuild.exchange import Exchanged, exchange_filled, exchanged_before
from twice.runtime.rebuild.fill import FillRequest, Report, fill
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan, RebuildRequest, plan_rebuild, refuse_rows_of_no_slice
from twice.runtime.rebuild.side import alone, ready_side, require_side
from twice.runtime.table.side_table import drop_side, held_side

_ROUNDS = 5
"""How often the side table is brought up to date with what is published meanwhile."""


@dataclass(frozen=True)
class RebuildResult:
    """`computed` and `copied`: how many slices. `before`: an earlier call had exchanged the table, and died before it
    could say so; nothing was computed. `rounds`: how often slices had to be filled again, for they were published
    meanwhile."""

    task: str
    table: str
    version: int
    computed: int = 0
    copied: int = 0
    rows: int | None = None
    rounds: int = 1
    before: bool = False

    def __str__(self) -> str:
        if self.before:
            return (
                f"{self.task}: {self.table} was exchanged already (version {self.version}); the side table is dropped"
            )
        rows = "" if self.rows is None else f"{counted(self.rows, 'row')}, "
        if not self.computed:
            return f"{self.task}: {self.table} is rebuilt: all rows copied as they are, {rows}version {self.version}"
        copied = f", {self.copied:,} copied" if self.copied else ""
        return (
            f"{self.task}: {self.table} is rebuilt: {counted(self.computed, 'slice')} computed again{copied}, {rows}"
            f"version {self.version}"
        )


def rebuild_table(rebuild: Rebuild, request: RebuildRequest, report: Report) -> RebuildResult:
    """Dying anywhere leaves the old table or the new one, and a side table from which the next call goes on."""
    with alone(rebuild):
        return _rebuild(rebuild, request, report)


def _rebuild(rebuild: Rebuild, request: RebuildRequest, report: Report) -> RebuildResult:
    task, progress = rebuild.task, rebuild.context.progress
    done = _finish_earlier(rebuild, request)
    if done is not None:
        return done
    changed: TableChanged | None = None
    for round_ in range(1, _ROUNDS + 1):
        progress.begins("looking what is to be done", task.name)
        plan = plan_rebuild(rebuild, request)
        _refuse_ahead(rebuild, plan)
        columns = copied_columns(rebuild, plan, request.renamed)
        if round_ == 1:
            _check_table(rebuild, plan)
        hit(Point.AFTER_PLAN)
        if plan.copies_all is not None:
            assert columns is not None, plan
            end = exchange_copy(rebuild, plan, columns)
        else:
            plan, side = ready_side(rebuild, plan, first=round_ == 1)
            # The first time all: what an earlier call has filled may be of other inputs by now.
            todo, required = plan if round_ == 1 else plan.left, partial(require_side, rebuild, side)
            fill(rebuild, todo, FillRequest(columns, request.parallel, report, required))
            hit(Point.AFTER_COMPUTE)
            required()
            progress.begins("exchanging the table", task.name)
            end = exchange_filled(rebuild, plan, request.lose_rows)
        if isinstance(end, Exchanged):
            _drop(rebuild)
            return _result(rebuild, plan, end, round_)
        changed = end
    if changed is not None:
        raise changed.at(task.name)
    raise Superseded(
        f"slices of {task.target} were published {_ROUNDS} times while the copy was being built",
        where=task.name,
        now="The table is not exchanged; the copy that is being built stays.",
        fix=f"Let the other runs end, then: twice rebuild {task.name}.",
    )


def preview(rebuild: Rebuild, request: RebuildRequest) -> tuple[RebuildPlan, CopiedColumns | None]:
    """What a rebuild would do, and what copied rows would get. Raises what it would be refused with before it begins,
    as far as no job over the table is needed to know it. Changes nothing."""
    plan = plan_rebuild(rebuild, request)
    return plan, copied_columns(rebuild, plan, request.renamed)


def _check_table(rebuild: Rebuild, plan: RebuildPlan) -> None:
    with rebuild.context.session() as session:
        rebuild.target(session).check_exchange(rebuild.task.target)
    if plan.copies_all is None:
        refuse_rows_of_no_slice(rebuild, plan)


def abandon(rebuild: Rebuild, forget: Callable[[], object]) -> bool:
    """Drop the copy being built, and its records (`forget`); whether there was anything. The table is not touched."""
    with rebuild.context.session() as session:
        held = drop_side(rebuild.context, rebuild.task, rebuild.target(session))
    forget()
    return held is not None


def _finish_earlier(rebuild: Rebuild, request: RebuildRequest) -> RebuildResult | None:
    with rebuild.context.session() as session:
        target = rebuild.target(session)
        side = held_side(rebuild.context, rebuild.task, target)
        if side is None:
            return None
        if side.copy:
            version = copied_before(rebuild, target, side)
        else:
            version = exchanged_before(rebuild, target, plan_rebuild(rebuild, request).filled, side.id)
        if version is None:
            return None
    _drop(rebuild)
    return RebuildResult(rebuild.task.name, str(rebuild.task.target), version, before=True)


def _refuse_ahead(rebuild: Rebuild, plan: RebuildPlan) -> None:
    ahead = plan.filling.ahead
    if ahead:
        raise UsageError(
            f"{rebuild.side_task.target} was filled for a later state of {rebuild.task.target} than it has now "
            f"({ahead[0]}): the table was restored, or recreated",
            where=rebuild.task.name,
            now="The table is unchanged.",
            fix=f"Start over: twice rebuild {rebuild.task.name} --abandon, then rebuild.",
        )


def _drop(rebuild: Rebuild) -> None:
    rebuild.context.progress.begins("dropping the side table", rebuild.task.name)
    with rebuild.context.session() as session:
        drop_side(rebuild.context, rebuild.task, rebuild.target(session))


def _result(rebuild: Rebuild, plan: RebuildPlan, end: Exchanged, rounds: int) -> RebuildResult:
    return RebuildResult(
        rebuild.task.name,
        str(rebuild.task.target),
        end.version,
        len(plan.computed),
        len(plan.copied),
        end.rows,
        rounds,
    )


def describe(plan: RebuildPlan, columns: CopiedColumns | None) -> str:
    """What a rebuild would do, for a person who is asked."""
    how = f" ({columns})" if columns is not None and str(columns) else ""
    if plan.copies_all is not None:
        return f"copies all rows as they are, {plan.copies_all}{how}"
    ready, adopted = len(plan.filling.ready), set(plan.adopted)
    computed, copied = (f"{labels_of(some)}{_of_them(some, adopted)}" for some in (plan.computed, plan.copied))
    parts = [f"computes {computed} again"] if plan.computed else []
    parts += [f"copies {copied} as they are{how}"] if plan.copied else []
    done = f"; {counted(ready, 'slice')} of them {'is' if ready == 1 else 'are'} built already" if ready else ""
    return f"{', and '.join(parts)}{done}"


def _of_them(slices: Sequence[Slice], adopted: Collection[str]) -> str:
    count = sum(slice_.label in adopted for slice_ in slices)
    return f" ({count:,} of them adopted)" if count else ""
