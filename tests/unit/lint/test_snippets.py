"""More than a hundred small files from outside the rules' own cases, most of them guards that must be respected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from twice.lint.run import lint_text
from twice.lint.settings import LintSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parent / "data" / "snippets.toml"
SNIPPETS: list[dict[str, Any]] = tomllib.loads(DATA.read_text(encoding="utf-8"))["snippet"]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet["name"])
def test_each_snippet_is_judged_as_its_reader_would(snippet: dict[str, Any]) -> None:
    findings = lint_text(snippet.get("path", "job.py"), snippet["code"], LintSettings(preview=True))
    codes = {finding.code for finding in findings if finding.severity != "info"}
    for wanted in snippet.get("must", ()):
        assert codes & set(wanted.split("|")), f"{wanted} is missing, found {sorted(codes)}"
    if snippet.get("clean"):
        assert not codes
