"""Options that every command has, and the one way from an error to its text and exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

import twice
from twice.cli.main import app
from twice.cli.options import boundary
from twice.core.failure.interruption import Terminated, exit_code_of
from twice.errors import Interrupted, RunError

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
    assert without == {"init", "lint"}


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


LOADING = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from twice.__main__ import main

class Pressed(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "twice.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Pressed())
main()
"""


def test_ctrl_c_while_the_command_line_is_loaded_ends_in_a_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted before anything was started. Run it again.\n")


@pytest.mark.parametrize(("interrupt", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_an_interrupt_outside_of_any_attempt_says_that_no_table_is_half_written(
    interrupt: KeyboardInterrupt, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise interrupt

    with pytest.raises(typer.Exit) as end:
        boundary(command)(debug=False)
    assert end.value.exit_code == code
    assert capsys.readouterr().err == (
        "interrupted. No attempt was under way, so no table is half written. Run it again.\n"
    )


def test_an_interrupt_that_was_reported_keeps_its_exit_code() -> None:
    assert exit_code_of(Interrupted(RunError("interrupted while Spark was starting"), 143)) == 143
