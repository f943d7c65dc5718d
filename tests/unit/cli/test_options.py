"""Options that every command has, and the one way from an error to its text and exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import twice
from twice.cli.main import app

ROOT = Path(__file__).parents[3]


def commands(group: Any = None, name: str = "") -> dict[str, set[str]]:
    """Every command with its options."""
    found: dict[str, set[str]] = {}
    whole: Any = group or typer.main.get_command(app)
    for word, command in whole.commands.items():
        if hasattr(command, "commands"):
            found |= commands(command, f"{word} ")
        else:
            found[name + word] = {option for each in command.params for option in each.opts}
    return found


def test_the_version_is_the_packages() -> None:
    answer = CliRunner().invoke(app, ["--version"])
    assert (answer.exit_code, answer.output) == (0, f"twice {twice.__version__}\n")
    assert f'\nversion = "{twice.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


def test_every_command_has_debug_and_those_of_a_project_say_which() -> None:
    found = commands()
    assert len(found) > 25
    assert all("--debug" in options for options in found.values())
    without = {name for name, options in found.items() if not {"--project", "-C", "--profile"} <= options}
    assert without == {"init", "doctor", "lint"}


@pytest.mark.parametrize("command", [["lint", "--select", "XX"], ["status", "nothing"]])
def test_an_error_has_the_same_form_whatever_the_command(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "twice.toml").write_text('project = "p"\n')
    (tmp_path / "pipelines").mkdir()
    monkeypatch.chdir(tmp_path)
    as_text = CliRunner().invoke(app, command)
    assert as_text.exit_code == 2
    assert as_text.stderr.startswith("error[usage]: ") and not as_text.stdout
    as_json = CliRunner().invoke(app, [*command, "-o", "json"])
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["error"]["code"] == "usage" and not as_json.stderr
    traced = CliRunner().invoke(app, [*command, "--debug"])
    assert "Traceback" in traced.stderr
