"""Every protection of twice is needed: without it, a named test goes red. See mutants.py and mutants.toml.

Those that need PostgreSQL or a JVM run in `make soak`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.mutants import mutants
from tests.mutants.mutants import Edit, Mutant

BROKEN = "E9,F821,F822,F823"
"""Ruff's rules for what cannot run: no Python, a name that nothing defines, a variable read before it is set."""

FAST = [mutant.name for mutant in mutants.all_mutants() if not mutant.needs]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    done = subprocess.run(mutants.COMMAND, cwd=mutants.ROOT, capture_output=True, text=True, timeout=1180)
    assert done.stdout, done.stderr[-3000:]
    return {result["name"]: result for result in map(json.loads, done.stdout.splitlines())}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FAST)
def test_without_a_protection_a_test_goes_red(name: str, results: dict[str, dict[str, Any]]) -> None:
    assert results[name]["killed"], results[name]["output"]


def test_a_protection_that_is_not_where_the_list_says_is_reported() -> None:
    with pytest.raises(ValueError, match="not once in core/table/token.py"):
        mutants.mutated(Mutant("gone", (Edit("core/table/token.py", "nobody wrote this", ""),), ()))


def test_every_mutant_of_the_list_can_be_made() -> None:
    """Also those that only `make soak` runs: a protection that moved is noticed here."""
    for mutant in mutants.all_mutants():
        for file, text in mutants.mutated(mutant).items():
            compile(text, file, "exec")
        for test in mutant.tests:
            assert _is_there(test), f"{mutant.name}: there is no {test}"


def test_no_mutant_is_a_program_that_is_broken_by_itself(tmp_path: Path) -> None:
    """A name that nothing defines goes red wherever it is met: such a mutant says nothing of its tests."""
    for number, mutant in enumerate(mutants.all_mutants()):
        for file, text in mutants.mutated(mutant).items():
            path = tmp_path / f"m{number:04}" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    asked = ("check", "--isolated", "--no-cache", "--output-format", "json", "--select", BROKEN, str(tmp_path))
    done = subprocess.run((sys.executable, "-m", "ruff", *asked), capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    names = [mutant.name for mutant in mutants.all_mutants()]
    found = [
        (names[int(Path(each["filename"]).relative_to(tmp_path).parts[0][1:])], each["message"])
        for each in json.loads(done.stdout)
    ]
    assert found == []


def _is_there(test: str) -> bool:
    """In its file, or in a suite of the contracts that its class passes."""
    file, *names = test.partition("[")[0].split("::")
    suites = (mutants.ROOT / "tests" / "contracts").glob("*_suite.py")
    text = "\n".join(path.read_text() for path in (mutants.ROOT / file, *suites))
    return all(re.search(rf"\b(class|def) {name}\b", text) for name in names)
