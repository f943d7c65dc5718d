"""The pages of the rules are what the rules say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from twice.lint.rules import all_rules

ROOT = Path(__file__).parents[3]


def test_the_pages_of_the_rules_are_current() -> None:
    pages = runpy.run_path(str(ROOT / "scripts" / "render_rules.py"))["pages"]()
    stale = [
        name
        for name, text in pages.items()
        if not (ROOT / "docs" / "rules" / name).exists()
        or (ROOT / "docs" / "rules" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python scripts/render_rules.py"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_message_says_what_happens_on_the_second_run_and_names_a_fix(rule: object) -> None:
    from twice.lint.run import lint_text
    from twice.lint.settings import LintSettings

    case = rule.BAD[0]  # type: ignore[attr-defined]
    code = rule.code  # type: ignore[attr-defined]
    found = [f for f in lint_text(case.path, case.code, LintSettings(select=(code,)), case.also) if f.code == code]
    assert len(found[0].message) > 40
    assert found[0].fix.endswith(".")
    assert found[0].source_line.strip()
