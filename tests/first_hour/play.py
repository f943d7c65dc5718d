"""Do what a page says, in an empty folder, and compare.

python -m tests.first_hour.play docs/tutorial.md            with the twice on the PATH
python -m tests.first_hour.play docs/tutorial.md --write    and write what was printed into the page
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.first_hour.compare import difference
from tests.first_hour.page import Command, File, Step, steps
from tests.first_hour.shell import Printed, Shell

ROOT = Path(__file__).resolve().parents[2]
READERS_FOLDER = "/home/you"
OUR_REPOSITORY = "<this repository>"
"""Written where a page cannot know a URL; this checkout is taken."""

_CODE = "echo $?"
_REPOSITORY = re.compile(r"(?:git\+|git clone [^\n]*?)(https://[^\s\"'@]+)")


@dataclass(frozen=True)
class Played:
    """`problem` is empty where the command did what the page says."""

    command: Command
    seconds: float
    printed: tuple[str, ...] = ()
    problem: str = ""


def play(page: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[Played]:
    """Every command of the page, as it ends. The first that fails ends it: those after it build on it."""
    todo = steps(page)
    with Shell(folder, {**environment, **_our_repository(todo)}) as shell:
        at = folder
        for step, following in zip(todo, [*todo[1:], None], strict=True):
            match step:
                case File():
                    (at / step.path).parent.mkdir(parents=True, exist_ok=True)
                    (at / step.path).write_text(step.text, encoding="utf-8")
                case Command(not_run=reason) if reason:
                    yield Played(step, 0.0)
                case Command():
                    began = time.monotonic()
                    printed = shell.run(step.text.replace(OUR_REPOSITORY, shlex.quote(str(ROOT))))
                    at = printed.folder
                    lines = tuple(line.replace(str(folder), READERS_FOLDER) for line in printed.lines)
                    problem = _problem(step, following, printed, lines)
                    yield Played(step, time.monotonic() - began, lines, problem)
                    if problem:
                        return


def _problem(step: Command, following: Step | None, printed: Printed, lines: tuple[str, ...]) -> str:
    expected = isinstance(following, Command) and following.text.strip() == _CODE
    if printed.code and not expected:
        return "\n".join([f"exit {printed.code}, and no `$ {_CODE}` follows", *lines])
    return difference(step.shown, lines)


def _our_repository(todo: list[Step]) -> dict[str, str]:
    """Git takes this checkout for each repository of ours that the page clones or installs from."""
    texts = [step.text for step in todo if isinstance(step, Command)]
    urls = {url for text in texts for url in _REPOSITORY.findall(text) if Path(url).stem == "twice"}
    given = {"GIT_CONFIG_COUNT": str(len(urls))} if urls else {}
    for number, url in enumerate(sorted(urls)):
        given |= {f"GIT_CONFIG_KEY_{number}": f"url.file://{ROOT}.insteadOf", f"GIT_CONFIG_VALUE_{number}": url}
    return given


def written(text: str, played: list[Played]) -> str:
    """The page with what was printed in the place of what it showed, where these differ."""
    lines = text.splitlines(keepends=True)
    for each in reversed(played):
        if each.problem and each.printed:
            first = each.command.line + each.command.text.count("\n")
            shown = "".join(f"{line}\n" for line in each.printed).strip("\n") + "\n"
            lines[first : first + len(each.command.shown)] = [shown]
    return "".join(lines)


def report(page: Path, played: Played) -> str:
    where = f"{page.name}:{played.command.line}"
    if played.command.not_run:
        return f"not run  {where}  {played.command.text}  ({played.command.not_run})"
    state = "FAILED" if played.problem else "ok"
    line = f"{state:7}  {where}  {played.seconds:5.1f} s  {played.command.text}"
    return "\n".join([line, *(f"         {each}" for each in played.problem.splitlines())])


def main() -> int:
    parser = argparse.ArgumentParser(description="Do what a page says and compare what is printed.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true", help="write what was printed into the page")
    asked = parser.parse_args()
    found: list[Played] = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="twice-page-") as folder:
        for played in play(asked.page, Path(folder).resolve(), environment):
            print(report(asked.page, played), flush=True)
            found.append(played)
    if asked.write:
        asked.page.write_text(written(asked.page.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 1 if any(played.problem for played in found) else 0


if __name__ == "__main__":
    sys.exit(main())
