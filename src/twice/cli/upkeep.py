"""recover, gc, mark, takeover and accept: looking after what crashes leave, and what a person decides of a table."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Date, Format, Output, TaskName, Where, Yes, ask, boundary, print_json
from twice.core.results.summary import counted

To = Annotated[str | None, typer.Option("--to", help="The new mark; left out, the task's initial.", metavar="MARK")]
Reason = Annotated[str, typer.Option("--reason", help="The reason; it is recorded in the ledger.")]
TakeoverReason = Annotated[
    str, typer.Option("--reason", help="The reason; it is recorded in the table and in the ledger.")
]


@boundary
def recover(output: Output = Format.text, where: Where = HERE) -> int:
    """Find out how attempts ended that stopped reporting.

    The tables show what became of them; no task is run.
    """
    from twice.project import upkeep

    with where.open() as opened:
        result = upkeep.recover(opened)
    if output is Format.json:
        settled = [{**asdict(one), "state": one.state.value} for one in result]
        print_json({"settled": settled, "open": result.open, "unasked": list(result.unasked)})
        return 1 if result.unasked else 0
    for attempt in result:
        print(f"{attempt.where}: attempt {attempt.attempt[:8]} is {attempt.state.value}")
    print(f"{counted(len(result), 'attempt')} settled, {result.open} still running")
    if any(attempt.state.value != "published" for attempt in result):
        print("next: run these slices again; what landed is not repeated")
    return print_unreadable(result.unasked, runnable("next: twice recover, when it can be read again"))


@boundary
def gc(output: Output = Format.text, where: Where = HERE) -> int:
    """Delete what dead attempts staged, and the scratch files of killed processes.

    Only where no process can publish it any more.
    """
    from twice.project import upkeep
    from twice.runtime.table.garbage import unreadable

    with where.open() as opened:
        removed = upkeep.gc(opened)
    if output is Format.json:
        print_json({"collected": [asdict(one) for one in removed]})
        return 1 if unreadable(removed) else 0
    for one in removed:
        files, attempts = counted(one.files, "file"), counted(len(one.attempts), "attempt")
        print(f"{one.task}: {files} of {attempts} deleted, {counted(len(one.kept), 'attempt')} kept")
        if one.kept:
            print(
                f"  kept until {', '.join(one.slices)} is published again: a process may still publish what it staged"
            )
        if one.former:
            print(f"  the table it wrote before could not be read ({one.unasked}): its open attempts stay open")
        if one.given_up:
            print(
                f"  {counted(len(one.given_up), 'attempt')} may have left files. The task is no longer declared, so gc "
                "does not know its table. Run VACUUM on that table to delete their files."
            )
    print(f"{counted(sum(one.files for one in removed), 'file')} deleted")
    return print_unreadable(unreadable(removed), runnable("next: twice gc, when it can be read again"))


@boundary
def show_mark(
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
def reset_mark(
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
    elif before.counts != after.counts:
        print(f"{task}: the mark is {after.at} and counts {after.counts} from now on, no longer {before.counts}")
        print(runnable(f"next: twice run {task}"))
    else:
        print(f"{task}: the mark was {before.at or 'unknown'} and is now {after.at}")
        print(runnable(f"next: twice run {task}"))
    return 0


@boundary
def takeover(
    task: TaskName,
    reason: TakeoverReason,
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
                "publishes is added to them unless its strategy replaces or merges them. A run of the old task "
                "that has begun publishes nothing any more; stop its schedule. Take the table over?",
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
        print(runnable(f"next: twice status {task}, then run or backfill what it should publish"))
    return 0


@boundary
def accept(
    task: TaskName,
    reason: Reason,
    date: Date = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Accept what a task keeps although its inputs were published again.

    Who did it and why is kept. No row is touched; it is named again when its inputs change again.
    """
    from twice.project import upkeep

    with where.open() as opened:
        found = upkeep.accept(opened, task, date, getpass.getuser(), reason)
    if output is Format.json:
        print_json({"accepted": [{"label": each.slice.label, "why": each.why} for each in found]})
        return 0
    for each in found:
        print(f"{task}[{each.slice.label}]: accepted as it is, although {each.why}")
    if not found:
        print(f"{task}: there is nothing to accept")
    return 0


def print_unreadable(tables: Sequence[str], then: str) -> int:
    """Tables that could not be read while the command went on with the others: each with why, and what to do once they
    can be read; the command's exit code."""
    for table in tables:
        print(f"could not be read: {table}; what is open there stays open")
    if tables:
        print(then)
    return 1 if tables else 0
