"""The documentation is held to what it says: links resolve, code parses, the README shows the shop's own job."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import pytest

from twice import errors
from twice.config import load
from twice.core.task import Task

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_to_a_file_resolves(page: Path) -> None:
    links = [link.split("#")[0] for link in LINK.findall(page.read_text()) if not link.startswith(("http", "#"))]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_python_example_parses(page: Path) -> None:
    for block in PYTHON.findall(page.read_text()):
        if not block.startswith(">>>"):
            ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_interactive_example_gives_what_it_shows(page: Path) -> None:
    done = doctest.testfile(str(page), module_relative=False)
    assert done.failed == 0


def test_the_readme_shows_the_shops_own_job() -> None:
    shown = PYTHON.findall((ROOT / "README.md").read_text())[0]
    job = (ROOT / "examples/worldshop/pipelines/revenue_daily.py").read_text()
    assert job.endswith(shown)


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/strategies/*.md")), ROOT / "docs/incremental.md"], ids=_name)
def test_a_strategys_page_shows_a_job_of_the_shop_or_one_that_declares_itself(page: Path) -> None:
    """The shop's own jobs are run by tests/acceptance/test_worldshop.py; any other is declared here."""
    jobs = [job.read_text() for job in ROOT.glob("examples/worldshop/pipelines/*.py")]
    shown = [block for block in PYTHON.findall(page.read_text()) if not block.startswith(">>>")]
    assert shown
    for block in shown:
        if not any(block in job for job in jobs):
            names: dict[str, object] = {}
            exec(compile(block, str(page), "exec"), names)
            assert any(isinstance(value, Task) for value in names.values())


def test_every_promise_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)?::(test_\w+)`", (ROOT / "README.md").read_text())
    assert len(named) >= 6
    file = ""
    for place, test in named:
        file = place or file
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


def test_the_configuration_page_shows_a_file_that_loads(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text(TOML.findall((ROOT / "docs/configuration.md").read_text())[0])
    assert load(tmp_path, "prod").warehouse == Path("/data/prod")


def test_the_effects_page_shows_a_file_that_loads(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text(TOML.findall((ROOT / "docs/effects.md").read_text())[0])
    effects = load(tmp_path).effects
    assert (effects.send, effects.allow) == (True, ("hooks.internal", "10.1.0.0/16"))


def test_every_exit_code_of_the_error_tree_is_on_its_page() -> None:
    page = (ROOT / "docs/exit-codes.md").read_text()
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert {error.exit_code for error in _tree(errors.TwiceError)} <= listed


def _tree(error: type[errors.TwiceError]) -> list[type[errors.TwiceError]]:
    return [error, *(deeper for below in error.__subclasses__() for deeper in _tree(below))]
