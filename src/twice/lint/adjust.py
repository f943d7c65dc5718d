"""Findings after the rules: silenced by a comment (one that silences nothing is a finding itself), or made worse by
what a scheduler does to the code, with the place that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twice.lint.facts import TaskFact
from twice.lint.file_facts import FileFacts, ProjectFacts, Suppression
from twice.lint.finding import RANK, Finding, Related

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


_RAISED = ("TW3", "TW506", "TW501", "TW503", "TW504", "TW801")
"""Retries repeat these by themselves; nobody has to start a second run."""


def raised(findings: list[Finding], file: FileFacts, project: ProjectFacts) -> list[Finding]:
    tasks = project.tasks_of.get(file.path, ())
    if not tasks:
        return findings
    return [_one(finding, file, tasks) for finding in findings]


def _one(finding: Finding, file: FileFacts, tasks: tuple[tuple[str, TaskFact], ...]) -> Finding:
    if not finding.code.startswith(_RAISED):
        return finding
    unit = _unit_at(finding, file)
    related = list(finding.related)
    worse = False
    for path, task in tasks:
        if task.units and unit and unit not in task.units:
            continue
        if (task.retries or 0) > 0:
            worse = True
            related.append(
                Related(path, task.span.line, task.span.column, f"retries={task.retries} repeats it after a failure")
            )
        if task.kind == "dag" and task.catchup is True:
            related.append(
                Related(path, task.span.line, task.span.column, "catchup=True runs it for every missed interval")
            )
    severity = finding.severity
    if worse and RANK[severity] == 1 and not finding.code.startswith("TW801"):
        severity = "error"
    return replace(finding, severity=severity, related=tuple(dict.fromkeys(related))[:4])


def _unit_at(finding: Finding, file: FileFacts) -> str:
    places = [write.place for write in file.writes]
    places += [effect.place for effect in file.effects] + [mark.place for mark in file.marks]
    for place in places:
        if place.span.line == finding.line:
            return place.unit
    return ""
