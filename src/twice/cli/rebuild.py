"""rebuild: the columns or the layout of a table changed by filling it again beside itself."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, TaskName, Where, Yes, ask, boundary, print_json
from twice.cli.terminal import Symbol, say
from twice.core.results.summary import counted
from twice.core.slice import labels_of
from twice.errors import UNCHANGED, UsageError

if TYPE_CHECKING:
    from twice.runtime.rebuild.fill import Filled

From = Annotated[str | None, typer.Option("--from", help="The first slice to compute again; those before are copied.")]
To = Annotated[str | None, typer.Option("--to", help="The last slice to compute again; those after are copied.")]
Parallel = Annotated[int, typer.Option("--parallel", help="Slices at once.", min=1)]
AdoptedToo = Annotated[bool, typer.Option("--adopted", help="Compute adopted slices again too; else they are copied.")]
Copy = Annotated[bool, typer.Option("--copy", help="Compute nothing: copy every row as it is.")]
Rename = Annotated[
    list[str] | None,
    typer.Option("--rename", help="Rows that are copied keep this column under its new name.", metavar="OLD=NEW"),
]
LoseRows = Annotated[
    int, typer.Option("--lose-rows", help="So many rows may be gone that no slice computes again.", min=0, metavar="N")
]
Abandon = Annotated[bool, typer.Option("--abandon", help="Drop the copy being built; the table is not touched.")]


@boundary
def rebuild(
    task: TaskName,
    first: From = None,
    last: To = None,
    parallel: Parallel = 1,
    adopted: AdoptedToo = False,
    copy: Copy = False,
    rename: Rename = None,
    lose_rows: LoseRows = 0,
    yes: Yes = False,
    abandon: Abandon = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Change a task's table by building it again beside itself.

    For columns that cannot be changed in place. Readers see the old table or the new one. After any end, run it again:
    it goes on.
    """
    from twice.project import rebuild as rebuilding
    from twice.runtime.rebuild.plan import RebuildRequest

    if abandon and (first or last or adopted or copy or rename or lose_rows):
        raise UsageError("--abandon drops all of the copy being built", fix="Leave out the other options.")
    request = RebuildRequest(first, last, parallel, adopted, copy, _names(rename or []), lose_rows)
    with where.open() as opened:
        if abandon:
            return _abandoned(task, rebuilding.abandon(opened, task), output)
        rebuilding.check(opened, task, request)
        if not yes:
            ask(_question(task, rebuilding.describe(opened, task, request)), "a table is not rebuilt", UNCHANGED)
        result = rebuilding.rebuild(opened, task, request, _quiet if output is Format.json else _print_filled)
    if output is Format.json:
        print_json({"rebuild": asdict(result)})
    else:
        say(str(result), Symbol.DONE)
        say(runnable(f"next: twice status {task}"))
    return 0


def _question(task: str, plan: str) -> str:
    return (
        f"{task}: {plan}, in a table beside its own, which then takes its place in one commit. Its effects are not "
        "sent again. Go on?"
    )


def _names(rename: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in rename]
    for old, _, new in pairs:
        if not old.strip() or not new.strip():
            raise UsageError(f"--rename takes OLD=NEW, not {old}", fix="Write --rename region=area.")
    return {old.strip(): new.strip() for old, _, new in pairs}


def _abandoned(task: str, there: bool, output: Format) -> int:
    if output is Format.json:
        print_json({"abandoned": there})
    elif there:
        say(f"{task}: the copy being built is dropped", Symbol.DONE)
    else:
        say(f"{task}: no copy is being built", Symbol.SAME)
    return 0


def _print_filled(filled: Filled) -> None:
    """While it works, to people alone: results go to stdout."""
    what = "copied" if filled.copied else "computed"
    if filled.error is not None:
        say(f"  {labels_of(filled.slices)}: not {what}: {filled.error.what}", stream=sys.stderr)
        return
    rows = filled.result.rows if filled.result else None
    known = "" if rows is None else f" ({counted(rows, 'row')})"
    say(f"  {labels_of(filled.slices)}: {what}{known}", stream=sys.stderr)


def _quiet(_: Filled) -> None: ...
