"""Audits as declarations: what must hold of the staged rows before anyone sees them.

`measures_of` says what can be counted in the same pass as the write; `judge` turns the counts into results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from twice.errors import DeclarationError

Severity = Literal["error", "warn"]
"""Whether an audit that fails stops the publish, or is reported alone."""

AuditKind = Literal["not_null", "unique", "rows", "accepted", "between", "expression", "not_shrunk", "custom"]
"""Which of the functions of `audit` made it."""


@dataclass(frozen=True)
class Audit:
    """One check. Use the functions of `audit`; `name` is what results and messages show."""

    kind: AuditKind
    name: str
    columns: tuple[str, ...] = ()
    severity: Severity = "error"
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] = ()
    sql: str = ""
    share: float = 1.0
    check: Callable[[Any], Any] | None = None

    def warn(self) -> Audit:
        """The same audit, reported but not stopping the publish."""
        return replace(self, severity="warn")


@dataclass(frozen=True)
class AuditResult:
    """What one audit found. `stops`: it kept the rows from being published."""

    name: str
    severity: Severity
    passed: bool
    message: str

    @property
    def stops(self) -> bool:
        return not self.passed and self.severity == "error"


def not_null(*columns: str, severity: Severity = "error") -> Audit:
    """None of these columns holds NULL."""
    return Audit("not_null", f"not_null({', '.join(columns)})", _checked_columns(columns, "not_null"), severity)


def unique(*columns: str, severity: Severity = "error") -> Audit:
    """No two rows have the same values in these columns (NULL counts as a value)."""
    return Audit("unique", f"unique({', '.join(columns)})", _checked_columns(columns, "unique"), severity)


def rows(*, at_least: int | None = None, at_most: int | None = None, severity: Severity = "error") -> Audit:
    if at_least is None and at_most is None:
        raise DeclarationError("audit.rows needs at_least= or at_most=", fix="Write audit.rows(at_least=1).")
    limits = [f"at_least={at_least}"] if at_least is not None else []
    limits += [f"at_most={at_most}"] if at_most is not None else []
    return Audit("rows", f"rows({', '.join(limits)})", (), severity, low=at_least, high=at_most)


def accepted(column: str, values: Sequence[Any], *, severity: Severity = "error") -> Audit:
    """Every value of the column is one of these (NULL passes; say not_null too if it must not)."""
    return Audit("accepted", f"accepted({column})", (column,), severity, values=tuple(values))


def between(column: str, low: Any, high: Any, *, severity: Severity = "error") -> Audit:
    """`low <= column <= high` (NULL passes)."""
    return Audit("between", f"between({column}, {low}, {high})", (column,), severity, low=low, high=high)


def expression(sql: str, *, name: str | None = None, severity: Severity = "error") -> Audit:
    """A Spark SQL condition that is true for every row (NULL passes)."""
    return Audit("expression", name or f"expression({sql})", (), severity, sql=sql)


def not_shrunk(*, to: float = 0.5, severity: Severity = "error") -> Audit:
    """The slice keeps at least this share of the rows it had when it was last published."""
    if not 0 < to <= 1:
        raise DeclarationError(f"audit.not_shrunk(to={to}) is not a valid share", fix="Give a number in (0, 1].")
    return Audit("not_shrunk", f"not_shrunk(to={to})", (), severity, share=to)


def custom(check: Callable[[Any], Any], *, name: str | None = None, severity: Severity = "error") -> Audit:
    """`check(staged_frame)` returns True, or False, or the text of what is wrong."""
    return Audit("custom", name or str(getattr(check, "__name__", "custom")), (), severity, check=check)


@dataclass(frozen=True)
class Measure:
    """A count taken while the rows are written: how many rows break one audit."""

    audit: Audit
    column: str | None = None

    @property
    def name(self) -> str:
        return f"{self.audit.name}:{self.column}" if self.column else self.audit.name


def measures_of(audits: Sequence[Audit]) -> tuple[Measure, ...]:
    """What the write itself can count. `rows` needs nothing more than the row count."""
    counted: list[Measure] = []
    for audit in audits:
        if audit.kind == "not_null":
            counted += [Measure(audit, column) for column in audit.columns]
        elif audit.kind in ("accepted", "between", "expression"):
            counted.append(Measure(audit))
    return tuple(counted)


@dataclass(frozen=True)
class HeldRows:
    """What a slice held until now: how many rows, where that is known, and whether it was published at all."""

    published: bool
    rows: int | None


def judge(audit: Audit, row_count: int, counts: Mapping[str, int], before: HeldRows) -> AuditResult | None:
    """The result of an audit that the write's own counts decide; None for one that must read the stage."""
    if audit.kind == "rows":
        return _judge_rows(audit, row_count)
    if audit.kind == "not_shrunk":
        return _judge_not_shrunk(audit, row_count, before)
    broken = {m.column or "": counts[m.name] for m in measures_of([audit])}
    if not broken:
        return None
    bad = {column: count for column, count in broken.items() if count}
    if not bad:
        return result(audit, True, f"0 of {row_count} rows break it")
    counted = ", ".join(
        f"{count} of {row_count} rows" + (f" in {column}" if column else "") for column, count in bad.items()
    )
    return result(audit, False, f"{counted} break it")


def result(audit: Audit, passed: bool, message: str) -> AuditResult:
    return AuditResult(audit.name, audit.severity, passed, message)


def _judge_rows(audit: Audit, row_count: int) -> AuditResult:
    enough = audit.low is None or row_count >= audit.low
    few = audit.high is None or row_count <= audit.high
    return result(audit, enough and few, f"{row_count} rows")


def _judge_not_shrunk(audit: Audit, row_count: int, before: HeldRows) -> AuditResult:
    if before.rows is not None:
        return result(audit, row_count >= before.rows * audit.share, f"{row_count} rows, {before.rows} before")
    unknown = "; how many it had before is not known" if before.published else ", published for the first time"
    return result(audit, True, f"{row_count} rows{unknown}")


def _checked_columns(columns: tuple[str, ...], kind: str) -> tuple[str, ...]:
    if not columns or not all(columns):
        raise DeclarationError(f"audit.{kind} needs the names of its columns", fix=f'Write audit.{kind}("order_id").')
    return columns
