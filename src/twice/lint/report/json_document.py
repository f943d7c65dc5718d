"""The report for programs. `schema_version` changes when a field is removed or changes its meaning."""

from __future__ import annotations

import json
from typing import Any

from twice.lint.finding import LintResult

SCHEMA_VERSION = 1


def render(result: LintResult) -> str:
    return json.dumps(document(result), indent=2, ensure_ascii=False) + "\n"


def document(result: LintResult) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "findings": [finding.as_data() for finding in result.findings],
        "notices": [vars(notice).copy() for notice in result.notices],
        "summary": _summary(result),
    }


def _summary(result: LintResult) -> dict[str, Any]:
    severities = [finding.severity for finding in result.findings]
    return {
        "files": result.files,
        "findings": len(severities),
        "errors": severities.count("error"),
        "warnings": severities.count("warning"),
        "infos": severities.count("info"),
        "by_family": result.by_family,
        "suppressed": result.suppressed,
        "baselined": result.baselined,
        "seconds": round(result.seconds, 3),
    }
