"""The documentation is held to what it says: links resolve, code parses, the README shows the shop's own job."""

from __future__ import annotations

import ast
import doctest
import re
import runpy
from pathlib import Path

import pytest
from tests.contracts.test_delta_target import TestDeltaInternal as _Delta
from tests.first_hour.page import File, steps

from twice import errors
from twice.config import load
from twice.core.task import Task
from twice.core.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


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


def test_the_readme_is_a_screen_and_a_half() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80


def test_the_tutorial_declares_the_shops_own_job() -> None:
    shown = (ROOT / "docs/tutorial.md").read_text()
    assert (ROOT / "examples/worldshop/pipelines/revenue_daily.py").read_text() in shown


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


def test_the_page_of_sql_tasks_declares_one(tmp_path: Path) -> None:
    files = {step.path: step.text for step in steps(ROOT / "docs/sql-tasks.md") if isinstance(step, File)}
    for name, text in files.items():
        (tmp_path / Path(name).name).write_text(text)
    declared = runpy.run_path(str(tmp_path / "revenue_daily.py"))["revenue_daily"]
    assert (declared.name, declared.sql) == ("revenue_daily", files["pipelines/revenue_daily.sql"])


def test_every_promise_names_tests_that_exist_and_that_make_test_takes() -> None:
    promises = re.split(r"^\d+\. ", (ROOT / "docs/promises.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(promises) >= 11
    assert [promise for promise in promises if "::test_" not in promise] == []
    named = re.findall(r"`(tests/[\w/]+\.py)?::(test_\w+)`", "".join(promises))
    file = ""
    for place, test in named:
        file = place or file
        text = (ROOT / file).read_text()
        assert f"def {test}(" in text, f"{file}::{test}"
        above = text[: text.index(f"def {test}(")].rpartition("\n\n")[2]
        whole = re.search(r"^pytestmark = .*", text, re.MULTILINE)
        assert "mark.long" not in above + (whole[0] if whole else ""), f"{file}::{test} is long"
        assert test not in _Delta.left_out, f"{file}::{test} is left out on Delta"


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


def test_no_command_installs_what_the_index_has_under_our_name() -> None:
    """The package is not published: whoever owns the name there is somebody else."""
    texts = [*PAGES, *ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.tmpl")]
    found = {_name(path): foreign for path in texts if (foreign := _by_bare_name(path.read_text()))}
    assert found == {}


@pytest.mark.parametrize("text", ["pip install twice", "pip install -U 'twice[spark]'.", 'pip install "twice==0.1.0"'])
def test_a_bare_name_is_found(text: str) -> None:
    assert _by_bare_name(text)


@pytest.mark.parametrize(
    "text",
    ['pip install "twice[spark] @ git+https://x/twice@v1"', 'pip install "dist/twice-0.1.0-py3-none-any.whl[spark]"'],
)
def test_a_file_and_a_git_reference_are_not_bare_names(text: str) -> None:
    assert not _by_bare_name(text)


def _by_bare_name(text: str) -> list[str]:
    return re.findall(r"""pip install[^\n]*?[ "']twice(?:\[[^]]*\])?(?:[=<>~][^\s"']*)?(?![\w./\[-]| @)""", text)


def test_pages_name_the_wheel_of_this_version() -> None:
    named = {wheel for page in PAGES for wheel in re.findall(r"twice-([\d.]+)-py3-none-any\.whl", page.read_text())}
    assert named == {__version__}


def _tree(error: type[errors.TwiceError]) -> list[type[errors.TwiceError]]:
    return [error, *(deeper for below in error.__subclasses__() for deeper in _tree(below))]
