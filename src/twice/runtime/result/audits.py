"""Carrying out audits on staged rows, which are not visible yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twice.core.audit import Audit, AuditResult, HeldRows, judge, result
from twice.core.failure.user_code import USER_CODE_FAILS
from twice.core.ledger.record import OVERWROTE, InputRecord
from twice.core.ports import Frame, Measured, Staged, Target
from twice.core.scope import Whole, slice_column_of
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UserCodeError
from twice.runtime.context import RunContext
from twice.runtime.table.settle import TableState

_SHOWN = 3
"""So many slices are named in a message."""


@dataclass(frozen=True)
class StagedRows:
    """What is audited, with what was counted in flight, and what each slice held before; both by slice."""

    staged: Staged
    measured: Mapping[str, Measured]
    before: Mapping[str, HeldRows]


def held_before(
    context: RunContext, task: Task, target: Target, slices: Sequence[Slice], found: TableState
) -> Mapping[str, HeldRows]:
    """By slice: how many rows it has, as the ledger knows. A rebuilt ledger does not, and of a slice that
    others may have overwritten it counts other rows: then they are counted in the table, if an audit asks for it and
    the table shows which rows are the slice's."""
    generations = found.generations
    runs = context.ledger.runs_of(task.name, [slice_.label for slice_ in slices])
    known = {label: run.rows for label, run in runs.items() if run.rows is not None and label not in found.overwritten}
    unknown = [slice_ for slice_ in slices if generations[slice_.label] > 0 and slice_.label not in known]
    if unknown and _can_be_counted(task) and any(audit.kind == "not_shrunk" for audit in task.audits):
        known = {**known, **context.engine.count(target.read(task.target), unknown)}
    return {label: HeldRows(generation > 0, known.get(label)) for label, generation in generations.items()}


def overwritten_rows(
    context: RunContext, task: Task, target: Target, slices: Sequence[Slice], found: TableState
) -> tuple[InputRecord, ...]:
    """A record of each slice that was never published, in whose place the table holds rows all the same: what reads the
    table and keeps what it read must know it. Counted only in a table that was another task's, or was cut differently;
    where they cannot be, they count as there."""
    first = [each for each in slices if not found.generations[each.label]]
    if not first or not found.shared or task.write.kind != "replace":
        return ()
    held: Mapping[str, int] = {each.label: -1 for each in first}
    if _can_be_counted(task):
        held = context.engine.count(target.read(task.target), first)
    table = str(context.project.located(task.target))
    return tuple(InputRecord(label, OVERWROTE, table, str(rows), None) for label, rows in held.items() if rows)


def _can_be_counted(task: Task) -> bool:
    owns_all = isinstance(task.scope, Whole) and task.write.kind == "replace"
    return owns_all or task.write.layout(task.scope).slice_column is not None


def run_audits(context: RunContext, task: Task, target: Target, rows: StagedRows) -> tuple[AuditResult, ...]:
    """Every audit's result, in the declared order. What the write already counted costs nothing more.

    Several slices are judged each for itself, as if it had come alone: an empty day must not hide behind a full one.
    """
    results: list[AuditResult] = []
    stage: Frame | None = None
    for audit in task.audits:
        by_slice = {label: judge(audit, of.rows, of.counts, rows.before[label]) for label, of in rows.measured.items()}
        known = {label: each for label, each in by_slice.items() if each is not None}
        if len(known) == len(by_slice):
            results.append(_together(audit, known))
            continue
        unique = _unique(audit, task, rows.staged)
        if unique:
            counted = target.duplicates(rows.staged, unique)
            if counted is not None:
                results.append(_unique_result(audit, counted, rows.measured))
                continue
        stage = target.read(task.target, at=rows.staged) if stage is None else stage
        results.append(_read_stage(context, audit, task, stage, rows))
    return tuple(results)


def _together(audit: Audit, by_slice: Mapping[str, AuditResult]) -> AuditResult:
    if len(by_slice) == 1:
        return next(iter(by_slice.values()))
    bad = {label: each.message for label, each in by_slice.items() if not each.passed}
    if not bad:
        return result(audit, True, f"holds for each of {len(by_slice)} slices")
    failed = "; ".join(f"{label}: {message}" for label, message in list(bad.items())[:_SHOWN])
    return result(audit, False, failed + (f"; and {len(bad) - _SHOWN} more slices" if len(bad) > _SHOWN else ""))


def _read_stage(context: RunContext, audit: Audit, task: Task, stage: Frame, rows: StagedRows) -> AuditResult:
    """One pass where a column says which slice a row is in; else a cut and a pass for each slice."""
    slices = rows.staged.plan.slices
    unique = _unique(audit, task, rows.staged)
    if unique:
        return _unique_result(audit, context.engine.duplicates(stage, unique), rows.measured)
    if len(slices) == 1:
        return _ask(audit, stage)
    scope = task.scope
    assert isinstance(scope, TimeScope), task.name
    by_slice = {}
    for slice_ in slices:
        assert slice_.bounds is not None, slice_
        part = context.engine.cut(stage, slice_.bounds.column, slice_.start, slice_.end, scope.zone)
        if audit.kind == "unique":
            mine = {slice_.label: rows.measured[slice_.label]}
            by_slice[slice_.label] = _unique_result(audit, context.engine.duplicates(part, audit.columns), mine)
        else:
            by_slice[slice_.label] = _ask(audit, part)
    return _together(audit, by_slice)


def _unique(audit: Audit, task: Task, staged: Staged) -> tuple[str, ...]:
    """The columns in which no two of all staged rows may agree; none where no column can say it. A value may come again
    in another slice, so several slices are distinguished by their column, if all rows of a slice hold one value there.
    """
    if audit.kind != "unique":
        return ()
    if len(staged.plan.slices) == 1:
        return audit.columns
    held = slice_column_of(task.scope)
    if held is None or not held.one_value:
        return ()
    return audit.columns if held.name in audit.columns else (*audit.columns, held.name)


def _unique_result(audit: Audit, count: int, measured: Mapping[str, Measured]) -> AuditResult:
    rows = sum(of.rows for of in measured.values())
    return result(audit, count == 0, f"{count} of {rows} rows repeat another's {', '.join(audit.columns)}")


def _ask(audit: Audit, stage: Frame) -> AuditResult:
    assert audit.check is not None, audit
    try:
        answer = audit.check(stage)
    except USER_CODE_FAILS as error:
        raise UserCodeError(
            f"the audit {audit.name} raised {type(error).__name__}: {error}", fix="Correct the audit and run again."
        ) from error
    if isinstance(answer, str):
        return result(audit, False, answer)
    return result(audit, bool(answer), "holds" if answer else "does not hold")
