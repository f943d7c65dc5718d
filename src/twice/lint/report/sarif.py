"""SARIF 2.1.0, the format of code scanning services."""

from __future__ import annotations

import inspect
import json
from importlib import metadata
from typing import Any
from urllib.parse import quote

from twice.lint.file_facts import Notice
from twice.lint.finding import Finding, LintResult, Related, Severity
from twice.lint.rules.rule import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVEL: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def render(result: LintResult) -> str:
    return json.dumps(document(result), indent=2, ensure_ascii=False) + "\n"


def document(result: LintResult) -> dict[str, Any]:
    index = {rule.code: number for number, rule in enumerate(result.rules)}
    run = {
        "tool": {
            "driver": {
                "name": "twice lint",
                "version": metadata.version("twice"),
                "rules": [_rule(rule) for rule in result.rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(notice) for notice in result.notices],
            }
        ],
        "results": [_result(finding, index) for finding in result.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    story = inspect.cleandoc(type(rule).__doc__ or rule.name)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": story.splitlines()[0]},
        "fullDescription": {"text": story},
        "help": {"text": f"Run: twice lint --explain {rule.code}"},
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": [rule.family]},
    }


def _result(finding: Finding, index: dict[str, int]) -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": finding.code}
    # A rule that reports on behalf of the tool (an unused suppression) need not be among those that ran.
    if finding.code in index:
        result["ruleIndex"] = index[finding.code]
    result |= {
        "level": _LEVEL[finding.severity],
        "message": {"text": f"{finding.message}\nFix: {finding.fix}"},
        "locations": [{"physicalLocation": _physical(finding.path, _region(finding))}],
        "partialFingerprints": {"twiceLint/v1": finding.fingerprint},
        "properties": {"name": finding.name, "family": finding.family, "fix": finding.fix},
    }
    if finding.declaration:
        result["properties"]["declaration"] = finding.declaration
    if finding.related:
        result["relatedLocations"] = [_related(number, each) for number, each in enumerate(finding.related)]
    return result


def _region(finding: Finding) -> dict[str, Any]:
    region: dict[str, Any] = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    if finding.source_line:
        region["snippet"] = {"text": finding.source_line}
    return region


def _related(number: int, related: Related) -> dict[str, Any]:
    region = {"startLine": related.line, "startColumn": related.column}
    return {
        "id": number,
        "message": {"text": related.message},
        "physicalLocation": _physical(related.path, region),
    }


def _notification(notice: Notice) -> dict[str, Any]:
    region = {"startLine": max(notice.line, 1)}
    return {
        "level": "warning",
        "message": {"text": notice.message},
        "locations": [{"physicalLocation": _physical(notice.path, region)}],
    }


def _physical(path: str, region: dict[str, Any]) -> dict[str, Any]:
    return {"artifactLocation": {"uri": quote(path.replace("\\", "/"))}, "region": region}
