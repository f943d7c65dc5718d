"""Severity follows context: what a scheduler does to the code makes a finding worse, and the report shows where."""

from __future__ import annotations

from dataclasses import replace

from twice.lint.facts import TaskFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import RANK, Finding, Related

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
