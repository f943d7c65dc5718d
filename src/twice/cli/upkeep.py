"""recover, gc, mark, takeover, adopt, accept: looking after what crashes leave, and what a person decides of tables."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Date, Format, Output, Reason, TaskName, Where, Yes, ask, boundary, print_json
from twice.cli.terminal import Symbol, say
from twice.core.names.first_few import first_few
from twice.core.results.summary import counted

To = Annotated[str | None, typer.Option("--to", help="The new mark; left out, the task's initial.", metavar="MARK")]
TakeoverReason = Annotated[
    str, typer.Option("--reason", help="The reason; it is recorded in the table and in the ledger.")
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table, as the task's target names it.")]
AdoptTask = Annotated[str, typer.Option("--task", "-t", help="The task that writes it from now on.")]
Published = Annotated[
    str | None,
    typer.Option("--published", help="Slices that are right as they are: 2026-01-01..2026-06-09, both ends included."),
]
LayOut = Annotated[bool, typer.Option("--lay-out", help="Rewrite the table if its partitioning does not fit.")]


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
        say(f"{attempt.where}: attempt {attempt.attempt[:8]} is {attempt.state.value}")
    say(f"{counted(len(result), 'attempt')} settled, {result.open} still running", Symbol.DONE)
    if any(attempt.state.value != "published" for attempt in result):
        say("next: run these slices again; what landed is not repeated")
    return print_unreadable(result.unasked, runnable("next: twice recover, when it can be read again"))


@boundary
def gc(output: Output = Format.text, where: Where = HERE) -> int:
    """Delete what dead attempts staged, and the scratch files of killed processes.

    Only where no process can publish it any more.
    """
    from twice.project import upkeep
    from twice.runtime.table.garbage import unreadable

    with where.open() as opened:
        removed, copies = upkeep.gc(opened), upkeep.left_copies(opened)
    if output is Format.json:
        print_json({"collected": [asdict(one) for one in removed], "copies": [asdict(one) for one in copies]})
        return 1 if unreadable(removed) else 0
    for one in removed:
        files, attempts = counted(one.files, "file"), counted(len(one.attempts), "attempt")
        say(f"{one.task}: {files} of {attempts} deleted, {counted(len(one.kept), 'attempt')} kept")
        if one.kept:
            say(f"  kept until {', '.join(one.slices)} is published again: a process may still publish what it staged")
        if one.former:
            say(f"  the table it wrote before could not be read ({one.unasked}): its open attempts stay open")
        if one.given_up:
            say(
                f"  {counted(len(one.given_up), 'attempt')} may have left files. The task is no longer declared, so gc "
                "does not know its table. Run VACUUM on that table to delete their files."
            )
    for copy in copies:
        say(f"{copy.task}: {copy.table} was left: {runnable(copy.kept) if copy.kept else 'dropped'}")
    say(f"{counted(sum(one.files for one in removed), 'file')} deleted", Symbol.DONE)
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
        say(runnable(mark.unclear))
    elif mark.at is None:
        say(f"{task}: nothing published yet; the first run reads {mark.cursor} from {mark.initial}")
    else:
        say(f"{task}: {mark.cursor} {mark.at} (table version {mark.table_version})")
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
        upkeep.check_reset(opened, task, to)
        before = upkeep.mark(opened, task)
        if not yes:
            twice = "" if before.keyed else " Its rows have no key: those that are read again are duplicated."
            question = f"move the mark from {before.at or 'an unknown position'} to {to or before.initial}?{twice}"
            ask(f"{task}: {question}", "a mark is not moved", "The mark is where it was.")
        before, after = upkeep.reset_mark(opened, task, to, getpass.getuser(), reason)
    if output is Format.json:
        print_json({"before": asdict(before), "after": asdict(after)})
    elif before == after:
        say(f"{task}: the mark is {after.at} already")
    elif before.counts != after.counts:
        say(f"{task}: the mark is {after.at} and counts {after.counts} from now on, no longer {before.counts}")
        say(runnable(f"next: twice run {task}"))
    else:
        say(f"{task}: the mark was {before.at or 'unknown'} and is now {after.at}")
        say(runnable(f"next: twice run {task}"))
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
        say(f"{task}: there is nothing to take over", Symbol.SAME)
    else:
        for owner, count in taken.items():
            say(f"{task}: took its table over from {owner} ({counted(count, 'slice')})", Symbol.DONE)
        say(runnable(f"next: twice status {task}, then run or backfill what it should publish"))
    return 0


@boundary
def adopt(
    table: Table,
    task: AdoptTask,
    published: Published = None,
    lay_out: LayOut = False,
    reason: TakeoverReason = "made before twice",
    yes: Yes = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Take over a table that was made elsewhere.

    Checks it against the task, and says what it would do; asks before it does anything. Slices that are declared
    published are not computed again.
    """
    from twice.project import upkeep
    from twice.runtime.upkeep.adopt import AdoptRequest
    from twice.runtime.upkeep.examine import describe

    with where.open() as opened:
        declared = upkeep.declared_for(opened, table, task)
        if not yes:
            found = upkeep.examine(opened, declared, published)
            if found.why is None or lay_out:
                ask(f"{task}: {describe(found)}. Go on?", "a table is not adopted", "The table is unchanged.")
        done = upkeep.adopt(opened, declared, AdoptRequest(getpass.getuser(), reason, published, lay_out))
    if output is Format.json:
        print_json({"adopted": asdict(done)})
        return 0
    rows = counted(done.rows, "row")
    how = f"rewritten with the right partitioning ({rows})" if done.laid_out else "taken as it is"
    say(f"{task}: {done.table} is {how}; {counted(len(done.published), 'slice')} declared published", Symbol.DONE)
    if done.already:
        say(f"  {counted(len(done.already), 'slice')} published already")
    if done.empty:
        say(f"  without rows: {first_few(done.empty, 5)}")
    say(runnable(f"next: twice status {task}, then run or backfill what is missing"))
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
        say(f"{task}[{each.slice.label}]: accepted as it is, although {each.why}", Symbol.DONE)
    if not found:
        say(f"{task}: there is nothing to accept", Symbol.SAME)
    return 0


def print_unreadable(tables: Sequence[str], then: str) -> int:
    """Tables that could not be read while the command went on with the others: each with why, and what to do once they
    can be read; the command's exit code."""
    for table in tables:
        say(f"could not be read: {table}; what is open there stays open", Symbol.FAILED)
    if tables:
        say(then)
    return 1 if tables else 0
