"""config show and doctor: what a project is set to, and whether it and this machine have what a run needs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from twice.cli.display import current_display
from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, Where, boundary, print_json
from twice.cli.terminal import Symbol, on_terminal, say
from twice.core.results.summary import counted

if TYPE_CHECKING:
    from twice.engine.session.doctor import Check


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
        say(f"{row.name.ljust(width)}  {row.value}  ({row.origin})")
    return 0


@boundary
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Also start Spark and try a commit: half a minute.")] = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Check this machine and the project: tasks, ledger, connections, disk. Exit 4 if something is wrong."""
    from twice.project.doctor import doctor as checks

    problems = 0
    found = []
    for check in checks(where.folder, where.profile, deep, current_display()):
        found.append(check)
        problems += not check.ok
        if output is Format.text:
            _print_check(check)
    if output is Format.json:
        print_json({"checks": [asdict(check) for check in found]})
    elif problems:
        say(counted(problems, "problem"), Symbol.FAILED)
    elif not deep:
        say(runnable("no problems found; twice doctor --deep also starts Spark and tries a commit"), Symbol.DONE)
    return 4 if problems else 0


def _print_check(check: Check) -> None:
    """As soon as it is known."""
    if on_terminal():
        say(f"{check.name}: {check.detail}", Symbol.DONE if check.ok else Symbol.FAILED)
    else:
        say(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
    if not check.ok:
        say(f"      {check.fix}")
    sys.stdout.flush()
