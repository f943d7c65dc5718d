"""Every rule reports its BAD cases and is silent on its GOOD ones."""

from __future__ import annotations

import pytest

from twice.lint.rules import Case, Rule, all_rules
from twice.lint.run import lint_text
from twice.lint.settings import LintSettings

SECTIONS = ("What it does", "Why it breaks a re-run", "When it is fine")
FIRST_RELEASE = [
    "TW101",
    "TW102",
    "TW103",
    "TW104",
    "TW105",
    "TW201",
    "TW202",
    "TW203",
    "TW301",
    "TW302",
    "TW303",
    "TW307",
    "TW401",
    "TW402",
    "TW501",
    "TW504",
    "TW506",
    "TW601",
    "TW602",
    "TW603",
    "TW701",
    "TW702",
    "TW801",
    "TW901",
]


def cases(kind: str) -> list[tuple[Rule, int, Case]]:
    return [(rule, index, case) for rule in all_rules() for index, case in enumerate(getattr(rule, kind))]


def found(rule: Rule, case: Case) -> list[int]:
    settings = LintSettings(select=(rule.code,))
    return sorted(f.line for f in lint_text(case.path, case.code, settings, case.also) if f.code == rule.code)


@pytest.mark.parametrize(("rule", "index", "case"), cases("BAD"), ids=lambda value: getattr(value, "code", "")[:6])
def test_a_rule_finds_its_bad_cases(rule: Rule, index: int, case: Case) -> None:
    lines = found(rule, case)
    assert lines, f"{rule.code} is silent on BAD[{index}]:\n{case.code}"
    if case.lines:
        assert lines == list(case.lines), f"{rule.code} BAD[{index}]:\n{case.code}"


@pytest.mark.parametrize(("rule", "index", "case"), cases("GOOD"), ids=lambda value: getattr(value, "code", "")[:6])
def test_a_rule_is_silent_on_its_good_cases(rule: Rule, index: int, case: Case) -> None:
    assert found(rule, case) == [], f"{rule.code} GOOD[{index}]:\n{case.code}"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_brings_its_documentation_and_both_kinds_of_cases(rule: Rule) -> None:
    text = rule.__doc__ or ""
    assert all(section in text for section in SECTIONS)
    assert rule.BAD
    assert rule.GOOD
    assert rule.code.startswith("TW")


def test_the_rules_of_the_first_release_are_stable() -> None:
    stable = {rule.code for rule in all_rules() if not rule.preview}
    assert set(FIRST_RELEASE) <= stable
