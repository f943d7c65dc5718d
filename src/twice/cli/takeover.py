"""takeover: give a table to another task than the one that owns its slices."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, TaskName, Where, Yes, ask, boundary, print_json
from twice.core.results.summary import counted

Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the table and in the ledger.")]


@boundary
def takeover(
    task: TaskName,
    reason: Reason,
    yes: Yes = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Give a table to another task than the one that wrote it.

    Asks first; who did it and why is kept. No row is touched. A task that only has a new name needs formerly= instead.
    """
    from twice.project import upkeep

    with where.open() as opened:
        others = upkeep.other_owners(opened, task)
        if others and not yes:
            listed = ", ".join(f"{counted(count, 'slice')} of {owner}" for owner, count in others.items())
            ask(
                f"{task}: its table holds {listed}. Their rows stay, and count as never published by {task}: what it "
                "publishes comes beside them unless its strategy replaces or merges them. Let the old task's runs end "
                "first: one that has begun may still publish. Take the table over?",
                "a table is not taken over",
                "The table's owner is unchanged.",
            )
        taken = upkeep.take_over(opened, task, getpass.getuser(), reason) if others else {}
    if output is Format.json:
        print_json({"taken_over": taken})
    elif not taken:
        print(f"{task}: there is nothing to take over")
    else:
        for owner, count in taken.items():
            print(f"{task}: took its table over from {owner} ({counted(count, 'slice')})")
        print(runnable(f"next: twice status {task}, then run or backfill what it shall publish"))
    return 0
