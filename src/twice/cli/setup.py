"""init, config show and doctor: what a project needs before its first run, and what the machine has."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from twice.cli.options import HERE, Format, Output, Where, boundary, print_json
from twice.core.results.summary import counted
from twice.errors import UsageError


@boundary
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the project.")],
    output: Output = Format.text,
) -> int:
    """Write a new project that works.

    Configuration, two pipelines, a test, sample data, pre-commit and CI.
    """
    name = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name):
        raise UsageError(f"{name!r} cannot name a project", fix="Use letters, digits, _ and -, e.g. myshop.")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", now="Nothing was written.", fix="Name a new folder.")
    written = sorted(_write(Path(__file__).with_name("templates"), folder, name))
    if output is Format.json:
        print_json({"project": name, "files": [str(path) for path in written]})
        return 0
    print(f"{name}: {counted(len(written), 'file')} written to {folder}")
    print(f"next: cd {folder} && twice run --all --date 2026-06-09")
    return 0


@boundary
def show_config(output: Output = Format.text, where: Where = HERE) -> int:
    """Every setting, its value and where it came from. Secrets stay hidden."""
    from twice.config import explain, load

    rows = explain(load(where.folder, where.profile))
    if output is Format.json:
        print_json({"settings": [{"name": r.name, "value": r.value, "origin": r.origin} for r in rows]})
        return 0
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name.ljust(width)}  {row.value}  ({row.origin})")
    return 0


@boundary
def doctor(output: Output = Format.text) -> int:
    """Check what twice needs of this machine. Exit 4 if something is missing."""
    from twice.project import machine

    checks = machine.doctor()
    if output is Format.json:
        print_json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
            if not check.ok:
                print(f"      {check.fix}")
    return 0 if all(check.ok for check in checks) else 4


def _write(source: Path, folder: Path, name: str) -> list[Path]:
    """Copy the templates. Names end in `.tmpl` so that no tool takes them for files of this package."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for item in source.iterdir():
        plain = item.name.removesuffix(".tmpl").replace("dot_", ".")
        if item.is_dir():
            written += _write(item, folder / plain, name)
        elif item.suffix == ".tmpl":
            path = folder / plain
            path.write_text(item.read_text(encoding="utf-8").replace("@PROJECT@", name), encoding="utf-8")
            written.append(path)
    return written
