"""The tutorial, done from its first command to its last but one, each compared with what the page shows.

Here `twice` and the scripts run in this process, on the session that is there; what is killed has its own process. A
new user's shell, with a process for every command and the proof, is played by `make test-first-hour`.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.first_hour.compare import difference
from tests.first_hour.page import Command, File, steps
from typer.testing import CliRunner

from twice.cli.main import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
PROOF = "twice prove "
"""Its scenarios take a minute, in a process with a JVM of its own."""


@dataclass
class Reader:
    """Somebody in a folder, with a shell that knows the commands of the tutorial."""

    folder: Path
    code: int = 0

    def do(self, text: str) -> str:
        """What the command prints. Leaves its exit code in `code`."""
        if text == "echo $?":
            return str(self.code)
        words = shlex.split(text)
        variables = [word for word in words if "=" in word and word.split("=")[0].isupper()]
        words = words[len(variables) :]
        if variables:
            return self._in_a_process(words, dict(word.split("=", 1) for word in variables))
        match words:
            case ["mkdir", made, "&&", "cd", entered] if made == entered:
                self.folder /= made
                self.folder.mkdir()
                return ""
            case ["python", script, *given]:
                return self._script(script, given)
            case ["twice", *given]:
                return self._twice(given)
            case _:
                raise AssertionError(f"this reader does not know {text!r}")

    def _in_a_process(self, words: list[str], variables: dict[str, str]) -> str:
        program = {"python": [sys.executable], "twice": [sys.executable, "-m", "twice"]}[words[0]]
        done = subprocess.run(
            [*program, *words[1:]],
            cwd=self.folder,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a failpoint kills its whole process group
        )
        self.code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return done.stdout

    def _script(self, script: str, given: list[str]) -> str:
        printed = io.StringIO()
        with _chdir(self.folder), pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setattr(sys, "argv", [script, *given])
            runpy.run_path(script, run_name="__main__")
        self.code = 0
        return printed.getvalue()

    def _twice(self, given: list[str]) -> str:
        with _chdir(self.folder):
            result = CliRunner().invoke(app, given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code = result.exit_code
        return result.output


@contextlib.contextmanager
def _chdir(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(400)  # half a minute on two idle cores
@pytest.mark.usefixtures("spark")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    reader, done = Reader(tmp_path), 0
    todo = [step for step in steps(PAGE) if not (isinstance(step, Command) and step.text.startswith(PROOF))]
    for step, following in zip(todo, [*todo[1:], None], strict=True):
        if isinstance(step, File):
            path = reader.folder / step.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text, encoding="utf-8")
            continue
        printed = reader.do(step.text)
        asked = isinstance(following, Command) and following.text == "echo $?"
        assert difference(step.shown, printed.splitlines()) == "", f"line {step.line}: {step.text}"
        assert asked or reader.code == 0 or step.text == "echo $?", printed
        done += 1
    assert done >= 19
