"""A new user: twice installed into a fresh environment, from the wheel and from git, `twice init`, the new project's
own CI, and every command of its README, of ours and of the tutorial, with what they print. `make test-first-hour`; it
takes minutes, and stores in docs/proof/first-hour.json what was tried, how long it took and every problem.

    python -m tests.first_hour.new_user              all of it
    python -m tests.first_hour.new_user --only docs/tutorial.md          a part, and nothing is stored
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from tests.first_hour.page import steps
from tests.first_hour.play import READERS_FOLDER, ROOT, play, report
from tests.first_hour.shell import Shell
from tests.postgres_server import PostgresServer
from tests.soak.result_file import keep, of_this_source

PAGES = ("README.md", "docs/tutorial.md")
RESULT = "first-hour.json"
SAMPLE_TEST_SECONDS = 40
_COMMAND = re.compile(r"^ {4}((?:pip|twice|pytest)\b.*?)(?: {2,}#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Project:
    """What `twice init` is asked for. `named`: with `--twice-from`; else it finds by itself where twice comes from."""

    name: str
    template: Literal["delta", "postgres"]
    twice_from: Literal["wheel", "git"]
    named: bool


OUR_URL = "https://git.example.com/data/twice.git"
"""Where git is told to take a clone of this commit. (pip before 24.1 takes no `name @ git+file:///…`.)"""
PROJECTS = (
    Project("delta", "delta", "wheel", named=False),
    Project("postgres", "postgres", "wheel", named=True),
    Project("delta-from-git", "delta", "git", named=False),
)


@dataclass
class Hour:
    """What was tried, and what went wrong. `folder` is empty at first and gone afterwards."""

    folder: Path
    tried: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def step(self, name: str, shell: Shell, command: str) -> float:
        """One command that must succeed. How long it took."""
        began = time.monotonic()
        done = shell.run(command)
        took = time.monotonic() - began
        self.say(f"{'FAILED' if done.code else 'ok':7}  {name}  {took:5.1f} s  {command}")
        self.note(name, command, took)
        if done.code:
            self.problem(f"{name}: {command}")
            self.say("\n".join(f"         {line}" for line in done.lines[-40:]))
        return took

    def note(self, name: str, command: str, seconds: float) -> None:
        self.tried.append({"part": name, "command": self._shown(command), "seconds": round(seconds, 1)})

    def problem(self, text: str) -> None:
        self.problems.append(self._shown(text))

    def _shown(self, text: str) -> str:
        return text.replace(str(self.folder), READERS_FOLDER)


def main() -> int:
    parser = argparse.ArgumentParser(description="Be a new user.")
    parts = [*(project.name for project in PROJECTS), *PAGES]
    parser.add_argument("--only", action="append", choices=parts, help="this part; may be repeated; nothing is stored")
    only = parser.parse_args().only
    source = of_this_source()
    commit = str(source["commit"])
    with tempfile.TemporaryDirectory(prefix="twice-first-hour-") as folder:
        hour = Hour(Path(folder).resolve())
        wheel = built(hour.folder / "dist")
        for project in PROJECTS:
            if project.name in (only or parts):
                _try_project(hour, project, wheel, commit)
        pages = [ROOT / page for page in PAGES if page in (only or parts)]
        if pages:
            _try_pages(hour, wheel, pages)
    if not only:
        keep(RESULT, {**source, "python": platform.python_version(), "problems": hour.problems, "tried": hour.tried})
    hour.say(f"{len(hour.problems)} problems" if hour.problems else "the first hour is well")
    return 1 if hour.problems else 0


def built(folder: Path) -> Path:
    """The wheel, as a release would have it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _clone(folder: Path) -> dict[str, str]:
    """The variables by which git has this commit at our URL. What is not committed is not in it."""
    repository = folder / "clone" / "twice.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(ROOT), str(repository)], check=True)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{repository}.insteadOf",
        "GIT_CONFIG_VALUE_0": OUR_URL,
    }


def fresh_environment(folder: Path) -> dict[str, str]:
    """An activated virtual environment with nothing in it, and nothing of ours in the variables."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    mine = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "TWICE_", "SHOP_", "UV_PROJECT", "GIT_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    path = os.pathsep.join([str(folder / "bin"), inherited["PATH"]])
    return {**inherited, "VIRTUAL_ENV": str(folder), "PATH": path}


def _try_project(hour: Hour, asked: Project, wheel: Path, commit: str) -> None:
    """The command's environment has twice from the source; the project's, as its CI, only what its files name."""
    name = asked.name
    at = hour.folder / name
    at.mkdir()
    match asked.twice_from:
        case "wheel":
            source, given, git = f"file://{wheel}", str(wheel), {}
        case "git":
            source = given = f"git+{OUR_URL}@{commit}"
            git = _clone(hour.folder)
    option = f" --twice-from {given}" if asked.named else ""
    with Shell(at, {**fresh_environment(at / "installed"), **git}) as shell:
        hour.step(name, shell, f'pip install -q "twice @ {source}"')
        hour.step(name, shell, "twice --version")
        hour.step(name, shell, f"twice init shop --template {asked.template}{option}")
    project = at / "shop"
    with _servers(asked.template) as servers:
        environment = {**fresh_environment(at / "ci"), **servers, **git}
        with Shell(project, {**environment, "CI": "true"}) as shell:  # as CI services have it
            for command in ci_commands(project):
                took = hour.step(f"{name} CI", shell, command)
                if command.startswith("pytest") and took > SAMPLE_TEST_SECONDS:
                    hour.problem(f"{name}: {command} took {took:.0f} s, more than {SAMPLE_TEST_SECONDS}")
        with Shell(project, environment) as shell:
            for command in _COMMAND.findall((project / "README.md").read_text()):
                hour.step(f"{name} README", shell, command)


def ci_commands(project: Path) -> list[str]:
    """What the project's own CI runs, in its order."""
    workflow: dict[str, Any] = yaml.safe_load((project / ".github/workflows/ci.yml").read_text())
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


@contextmanager
def _servers(template: str) -> Iterator[Mapping[str, str]]:
    """The variables that name the project's databases, while they run."""
    if template != "postgres":
        yield {}
        return
    server = PostgresServer.start()
    try:
        yield {name: server.fresh_database() for name in ("SHOP_URL", "SHOP_TEST_URL")}
    finally:
        server.remove()


def _try_pages(hour: Hour, wheel: Path, pages: list[Path]) -> None:
    """Each in an empty folder that holds the wheel, with twice installed from it."""
    environment = fresh_environment(hour.folder / "environment")
    with Shell(hour.folder, environment) as shell:
        hour.step("pages", shell, f'pip install -q "twice[spark,postgres] @ file://{wheel}" pytest')
    for page in pages:
        home = hour.folder / page.stem.lower() / "home"
        home.mkdir(parents=True)
        shutil.copy(wheel, home)
        if not steps(page):
            hour.problem(f"{page.name} has no commands")
        for played in play(page, home, environment):
            hour.say(report(page, played))
            if not played.command.not_run:
                hour.note(page.name, played.command.text, played.seconds)
            if played.problem:
                hour.problem(f"{page.name}:{played.command.line}: {played.command.text}")


if __name__ == "__main__":
    sys.exit(main())
