"""Carrying out audits on staged rows, which nobody sees yet."""

from __future__ import annotations

from collections.abc import Mapping

from twice.core.audit import Audit, AuditResult, judge, result
from twice.core.ports import Frame, Measured, Staged, Target
from twice.core.task import Task
from twice.errors import UserCodeError
from twice.runtime.workshop import Workshop


def run_audits(
    shop: Workshop,
    task: Task,
    target: Target,
    staged: Staged,
    measured: Mapping[str, Measured],
    rows_before: int | None,
) -> tuple[AuditResult, ...]:
    """Every audit's result, in the declared order. What the write already counted costs nothing more."""
    counts = _added_up(measured)
    row_count = sum(slice_.rows for slice_ in measured.values())
    results: list[AuditResult] = []
    stage: Frame | None = None
    for audit in task.audits:
        judged = judge(audit, row_count, counts, rows_before)
        if judged is None:
            stage = target.read(task.target, at=staged) if stage is None else stage
            judged = _read_stage(shop, audit, stage, row_count)
        results.append(judged)
    return tuple(results)


def _added_up(measured: Mapping[str, Measured]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for slice_ in measured.values():
        for name, count in slice_.counts.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _read_stage(shop: Workshop, audit: Audit, stage: Frame, row_count: int) -> AuditResult:
    if audit.kind == "unique":
        count = shop.engine.duplicates(stage, audit.columns)
        return result(audit, count == 0, f"{count} of {row_count} rows repeat another's {', '.join(audit.columns)}")
    assert audit.check is not None, audit
    try:
        answer = audit.check(stage)
    except Exception as error:
        raise UserCodeError(
            f"the audit {audit.name} raised {type(error).__name__}: {error}", fix="Correct the audit and run again."
        ) from error
    if isinstance(answer, str):
        return result(audit, False, answer)
    return result(audit, bool(answer), "holds" if answer else "does not hold")
