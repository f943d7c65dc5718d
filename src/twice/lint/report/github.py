"""Workflow commands that GitHub Actions shows beside the changed lines."""

from __future__ import annotations

from twice.lint.file_facts import Notice
from twice.lint.finding import Finding, LintResult, Severity

_LEVEL: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}


def render(result: LintResult) -> str:
    lines = [_finding(finding) for finding in result.findings]
    lines += [_notice(notice) for notice in result.notices]
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: Finding) -> str:
    place = [f"file={_property(finding.path)}", f"line={finding.line}", f"endLine={finding.end_line}"]
    # GitHub takes columns only for a range inside one line.
    if finding.end_line == finding.line:
        place += [f"col={finding.column}", f"endColumn={finding.end_column}"]
    title = _property(f"{finding.code} {finding.name}")
    body = _data(f"{finding.message}\nFix: {finding.fix}")
    return f"::{_LEVEL[finding.severity]} {','.join(place)},title={title}::{body}"


def _notice(notice: Notice) -> str:
    place = f"file={_property(notice.path)},line={notice.line}"
    return f"::notice {place},title=twice lint::{_data(notice.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
