"""mark: where an incremental task is, and setting that back."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from typing import Annotated

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, TaskName, Where, Yes, ask, boundary, print_json

To = Annotated[str | None, typer.Option("--to", help="The new mark; left out, the task's initial.", metavar="MARK")]
Reason = Annotated[str, typer.Option("--reason", help="The reason; it is recorded in the ledger.")]


@boundary
def show(
    task: TaskName,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show how far an incremental task has read.

    Asks the target, which keeps the mark in the same commit as the data.
    """
    from twice.project import upkeep

    with where.open() as opened:
        mark = upkeep.mark(opened, task)
    if output is Format.json:
        print_json({"mark": asdict(mark)})
    elif mark.unclear is not None:
        print(runnable(mark.unclear))
    elif mark.at is None:
        print(f"{task}: nothing published yet; the first run reads {mark.cursor} from {mark.initial}")
    else:
        print(f"{task}: {mark.cursor} {mark.at} (table version {mark.table_version})")
    return 0


@boundary
def reset(
    task: TaskName,
    reason: Reason,
    to: To = None,
    yes: Yes = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Set the mark back, so that rows are read again.

    Asks first; who did it and why is kept. No row is touched: the next run reads from there.
    """
    from twice.project import upkeep

    with where.open() as opened:
        before = upkeep.mark(opened, task)
        if not yes:
            twice = "" if before.keyed else " Its rows have no key: those that are read again are duplicated."
            question = f"move the mark from {before.at or 'an unknown position'} to {to or before.initial}?{twice}"
            ask(f"{task}: {question}", "a mark is not moved", "The mark is where it was.")
        before, after = upkeep.reset_mark(opened, task, to, getpass.getuser(), reason)
    if output is Format.json:
        print_json({"before": asdict(before), "after": asdict(after)})
    elif before == after:
        print(f"{task}: the mark is {after.at} already")
    else:
        print(f"{task}: the mark was {before.at or 'unknown'} and is now {after.at}")
        print(runnable(f"next: twice run {task}"))
    return 0
