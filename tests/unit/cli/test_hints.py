"""A command that is printed can be run as it stands: it carries the project and the profile it was printed for."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import twice
from twice.cli.hints import hinting, runnable
from twice.cli.main import app
from twice.cli.next_step import make_right
from twice.cli.options import print_json
from twice.core.hints import Hints, hints_for

from .test_options import commands

PROD = Hints(" --profile prod")
COMMANDS = commands()
CLI = Path(twice.__file__).parent / "cli"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_a_project_is_completed_and_no_other(name: str) -> None:
    has_profile = "--profile" in COMMANDS[name]
    assert PROD.in_text(f"next: twice {name}.") == f"next: twice {name}{' --profile prod' if has_profile else ''}."


def test_every_command_of_a_text_is_completed_once() -> None:
    text = "See twice history revenue --date 2026-06-09; when the cause is gone: twice retry revenue."
    completed = (
        "See twice history --profile prod revenue --date 2026-06-09; when the cause is gone: "
        "twice retry --profile prod revenue."
    )
    assert PROD.in_text(text) == completed
    assert PROD.in_text(completed) == completed
    assert PROD.in_text("it ran twice, and twice more") == "it ran twice, and twice more"


def test_a_backfill_takes_its_options_after_its_task() -> None:
    with hinting(PROD):
        assert make_right("revenue", ["2026-06-08", "2026-06-09"]) == (
            "twice backfill revenue --profile prod --from 2026-06-08 --to 2026-06-09 --only stale --with-downstream"
        )
        assert runnable("twice backfill resume b-1") == "twice backfill resume --profile prod b-1"


def test_a_profile_of_the_environment_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    assert hints_for(Path(), None) == Hints()
    assert hints_for(Path("my shop"), "prod").options == " --project 'my shop' --profile prod"
    monkeypatch.setenv("TWICE_PROFILE", "prod")
    assert hints_for(Path(), "prod") == Hints()
    assert hints_for(Path(), "dev").options == " --profile dev"


def test_in_json_hints_are_completed_and_data_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    body = {"tasks": [{"error": {"what": "twice gc", "fix": "twice gc"}, "notes": ("next: twice effects send",)}]}
    with hinting(PROD):
        print_json(body)
    assert json.loads(capsys.readouterr().out)["tasks"] == [
        {
            "error": {"what": "twice gc", "fix": "twice gc --profile prod"},
            "notes": ["next: twice effects send --profile prod"],
        }
    ]


FOLLOWED = {
    ("status",): "next: twice run{} TASK --date DATE",
    ("status", "revenue", "--calendar"): "next: twice backfill revenue{} --from DATE --to DATE --dry-run",
    ("history", "revenue"): "next: twice run{} revenue --date DATE",
    ("backfill", "list"): "next: twice backfill TASK{} --from DATE --to DATE --dry-run",
    ("graph",): "next: twice run{} --all --date DATE",
    ("backfill", "show", "none"): "See them all with twice backfill list{}.",
    ("effects", "show", "7"): "See them: twice effects list{}.",
    ("effects", "resolve", "7"): "See twice effects show{} 7.",
    ("prove",): "twice prove{} revenue_daily --date 2026-06-09",
    ("status", "--calendar"): "Name it: twice status{} TASK --calendar.",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "twice.toml").write_text('project = "p"\n[profiles.prod]\nwarehouse = "prod"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.py").write_text(
        "from twice import Daily, replace, task\n"
        "@task('shop.revenue', scope=Daily('day', start='2026-01-01'), write=replace())\n"
        "def revenue(run): ...\n"
    )
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", FOLLOWED, ids=" ".join)
def test_what_a_command_prints_names_the_profile_and_the_project_it_was_given(
    command: tuple[str, ...], project: Path
) -> None:
    def printed(*options: str) -> str:
        answer = CliRunner().invoke(app, [*command, *options])
        return answer.stdout + answer.stderr

    assert FOLLOWED[command].format(" --profile prod") in printed("--profile", "prod")
    both = printed("--profile", "prod", "--project", str(project))
    assert FOLLOWED[command].format(f" --project {project} --profile prod") in both
    assert FOLLOWED[command].format("") in printed()


def test_an_error_as_json_gives_a_command_that_can_be_run(project: Path) -> None:
    answer = CliRunner().invoke(app, ["backfill", "show", "none", "--profile", "prod", "-o", "json"])
    assert json.loads(answer.stdout)["error"]["fix"] == "See them all with twice backfill list --profile prod."


def _unaddressed(tree: ast.AST, within: bool = False) -> Iterator[str]:
    """The texts with a command that no `runnable(…)` completes. UsageError's are, where it is printed."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not within and PROD.in_text(node.value) != node.value:
                yield node.value
            continue
        covered = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a docstring
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            covered = name in {"runnable", "UsageError"} or name.startswith("typer.")
        yield from _unaddressed(node, within or covered)


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_no_command_leaves_the_command_line_without_its_options(path: Path) -> None:
    found = [text for text in _unaddressed(ast.parse(path.read_text())) if not re.search("twice run refuses", text)]
    allowed = {
        "new_project": ["twice run --all --date 2026-06-09"]
    }  # of a project that was just made, without profiles
    assert [text.removeprefix(" && ") for text in found] == allowed.get(path.stem, [])
