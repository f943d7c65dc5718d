"""`twice init`: a project that works, from one of the templates, with the twice that its user names or runs."""

from __future__ import annotations

import re
import shutil
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from twice.cli.options import Format, Output, boundary, print_json
from twice.cli.terminal import Symbol, say
from twice.cli.twice_source import GitReference, Source, Wheel, installed_source, source_of
from twice.core.closed import assert_never
from twice.core.names.first_few import first_few
from twice.core.results.summary import counted
from twice.errors import UsageError

PACKAGE = Path(__file__).parents[1]
TEMPLATES = Path(__file__).with_name("templates")
CI = ".github/workflows/ci.yml"
WHEELS = "wheels"
_NOT_FROM_INDEX = "twice is on no package index; a package of that name there is somebody else's"


class ProjectTemplate(str, Enum):
    """`delta`: Delta tables in a folder. `postgres`: from there to tables of a server."""

    delta = "delta"
    postgres = "postgres"

    @property
    def extras(self) -> str:
        match self:
            case ProjectTemplate.delta:
                return "spark"
            case ProjectTemplate.postgres:
                return "spark,postgres"
            case _:
                assert_never(self)


@boundary
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the project.")],
    template: Annotated[
        ProjectTemplate, typer.Option("--template", "-t", help="Where its results go.")
    ] = ProjectTemplate.delta,
    twice_from: Annotated[
        str | None,
        typer.Option(
            "--twice-from",
            metavar="WHEEL|GIT",
            help="What CI installs: a wheel, or git+https://…; else what is installed here.",
        ),
    ] = None,
    output: Output = Format.text,
) -> int:
    """Write a new project that works.

    Configuration, two pipelines, tests, sample data, pre-commit and CI. A file that is there already is never replaced.
    """
    name = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name):
        raise UsageError(f"{name!r} cannot name a project", fix="Use letters, digits, _ and -, e.g. myshop.")
    source = source_of(twice_from) if twice_from is not None else installed_source(PACKAGE)
    written = write_project(folder, name, template, source)
    if output is Format.json:
        files = [str(path) for path in written]
        print_json({"project": name, "files": files, "twice_from": None if source is None else str(source)})
        return 0
    say(f"{name}: {counted(len(written), 'file')} written to {folder}", Symbol.DONE)
    if source is None:
        say(f"its CI fails until {folder / CI} says where twice comes from: {_NOT_FROM_INDEX}")
        say("twice init writes it there if you give it --twice-from, a wheel or git+https://…@tag")
    elif twice_from is None:
        say(f"its CI installs twice from {source}, as here; --twice-from names another place")
    if template is ProjectTemplate.postgres:
        say("set SHOP_URL to the URL of a PostgreSQL server first: see its README.md")
    say(f"next: cd {folder} && twice run --all --date 2026-06-09")
    return 0


def write_project(folder: Path, name: str, template: ProjectTemplate, source: Source) -> list[Path]:
    """All files or none: where one of them is there already nothing is written."""
    texts = {"@PROJECT@": name, **_texts(source, template.extras)}
    files = {
        folder / path: _filled(text, texts)
        for part in ("common", template.value)
        for path, text in _templates(TEMPLATES / part)
    }
    copied = {folder / WHEELS / source.file.name: source.file} if isinstance(source, Wheel) else {}
    there = sorted(str(path.relative_to(folder)) for path in (*files, *copied) if path.exists() or path.is_symlink())
    if there:
        raise UsageError(
            f"{folder} already has {first_few(there)}",
            now="Nothing was written.",
            fix="Name a new folder, or move these away.",
        )
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    for path, wheel in copied.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, path)
    return sorted((*files, *copied))


def _templates(folder: Path) -> list[tuple[Path, str]]:
    """Names end in `.tmpl` so that no tool takes them for files of this package; `dot_` is a leading dot."""
    found = [path for path in folder.rglob("*.tmpl") if path.is_file()]
    return [(_named(path.relative_to(folder)), path.read_text(encoding="utf-8")) for path in sorted(found)]


def _named(path: Path) -> Path:
    return Path(*(re.sub(r"^dot_", ".", part) for part in path.with_suffix("").parts))


def _filled(text: str, texts: dict[str, str]) -> str:
    for mark, value in texts.items():
        # A line of a mark alone whose text is empty goes altogether.
        text = text.replace(f"{mark}\n", f"{value}\n" if value else "").replace(mark, value)
    return text


def _texts(source: Source, extras: str) -> dict[str, str]:
    match source:
        case GitReference(url):
            requirement = f"twice[{extras}] @ {url}"
        case Wheel(file):
            requirement = f"twice[{extras}] @ {{root:uri}}/{WHEELS}/{file.name}"
        case None:
            return _to_be_named(extras)
        case _:
            assert_never(source)
    return {
        "@DEPENDENCIES@": f'# Not from a package index: {_NOT_FROM_INDEX}.\ndependencies = ["{requirement}"]',
        "@INSTALL_STEP@": "",
        "@INSTALL@": '    pip install ".[test]"                             # from where pyproject.toml says',
    }


def _to_be_named(extras: str) -> dict[str, str]:
    example = f'"twice[{extras}] @ git+https://git.example.com/data/twice@v0.1.0"'
    step = f"""\
      # FILL IN, the only place here: {_NOT_FROM_INDEX}.
      # Say where yours comes from, e.g.
      #   - run: pip install {example}
      - run: echo "::error::{CI} does not say yet where twice comes from" && exit 1"""
    return {
        "@DEPENDENCIES@": f"# twice itself is installed apart: {_NOT_FROM_INDEX}.\n"
        f"# To have it from here, name yours: dependencies = [{example}]\ndependencies = []",
        "@INSTALL_STEP@": step,
        "@INSTALL@": f"""\
`twice` is installed apart, from the wheel or the git repository that you have it from ({_NOT_FROM_INDEX}):

    pip install {example}
    pip install ".[test]\"""",
    }
