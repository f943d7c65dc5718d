"""Comments that silence a finding, and comments that silence nothing."""

from __future__ import annotations

from collections.abc import Iterable

from twice.lint.file_facts import FileFacts, Suppression
from twice.lint.finding import Finding

CODE = "TW001"
NAME = "unused-suppression"


def applied(findings: Iterable[Finding], file: FileFacts, ran: frozenset[str]) -> tuple[list[Finding], int]:
    """The findings that remain, and how many were silenced.

    A suppression that silences nothing is a finding itself, unless a rule it names did not run this time.
    """
    used: set[Suppression] = set()
    kept = []
    silenced = 0
    for finding in findings:
        matching = [item for item in file.suppressions if _covers(item, finding)]
        used.update(matching)
        if matching:
            silenced += 1
        else:
            kept.append(finding)
    kept.extend(_unused(item, file) for item in file.suppressions if item not in used and _judged(item, ran))
    return kept, silenced


def _covers(suppression: Suppression, finding: Finding) -> bool:
    if suppression.codes and not finding.code.startswith(suppression.codes):
        return False
    first, last = suppression.covers
    if (first, last) == (0, 0):
        return True
    return finding.line <= last and max(finding.end_line, finding.line) >= first


def _judged(suppression: Suppression, ran: frozenset[str]) -> bool:
    return (
        all(any(code.startswith(named) for code in ran) for named in suppression.codes) if suppression.codes else True
    )


def _unused(suppression: Suppression, file: FileFacts) -> Finding:
    codes = ", ".join(suppression.codes) or "everything"
    span = suppression.span
    return Finding(
        code=CODE, name=NAME, severity="warning", path=file.path, line=span.line, column=span.column,
        end_line=span.end_line, end_column=span.end_column,
        message=f"This comment silences {codes}, and nothing is found there.",
        fix="Remove the comment; a silence that is not needed hides the next finding on that line.",
    )  # fmt: skip
