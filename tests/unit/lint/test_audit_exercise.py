"""The tutorial's exercise: six faults, all found, each with its fix; the solution has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.lint.finding import Finding
from twice.lint.run import lint_paths
from twice.lint.settings import LintSettings

SHOP = Path(__file__).parents[3] / "examples" / "worldshop"
SIX = {
    "the day from the clock": ("TW101", "datetime.now()"),
    "the random batch": ("TW201", "random.randint("),
    "the random id": ("TW201", "uuid.uuid4()"),
    "the bare insert": ("TW302", "INSERT INTO fact_refunds"),
    "the mark apart from its rows": ("TW504", "etl_watermark"),
    "the message without a key": ("TW801", "requests.post("),
}


def found_in(path: Path, *, preview: bool = False) -> tuple[Finding, ...]:
    return lint_paths([path], LintSettings(cache=False, preview=preview, jobs=1)).findings


@pytest.mark.parametrize("fault", SIX)
def test_each_fault_of_the_exercise_is_found_where_it_stands(fault: str) -> None:
    code, words = SIX[fault]
    exercise = SHOP / "naive" / "audit_exercise.py"
    line = next(number for number, text in enumerate(exercise.read_text().splitlines(), 1) if words in text)
    findings = [each for each in found_in(exercise) if each.code == code and abs(each.line - line) <= 1]
    assert len(findings) == 1, fault
    assert findings[0].fix
    assert findings[0].declaration


def test_the_message_is_called_a_message() -> None:
    exercise = SHOP / "naive" / "audit_exercise.py"
    message = next(each.message for each in found_in(exercise) if each.code == "TW801")
    assert "charged" not in message


def test_the_solution_is_clean_also_for_the_rules_in_preview() -> None:
    assert found_in(SHOP / "audit_exercise_fixed.py", preview=True) == ()
