"""ledger migrate, check, rebuild, export, unassigned and prune: looking after the ledger itself."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, TextIO

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, Where, boundary, plain, print_json
from twice.cli.terminal import Symbol, say
from twice.cli.upkeep import print_unreadable
from twice.core.results.summary import counted
from twice.errors import UsageError

OlderThan = Annotated[
    str, typer.Option("--older-than", help="Delete what ended longer ago than this, e.g. 90d.", metavar="DAYS")
]
File = Annotated[Path | None, typer.Option("--to", help="A file instead of standard output.", dir_okay=False)]

Take = Annotated[
    str | None,
    typer.Option(
        "--take", metavar="TASK", help="Assign this task's remaining records to this environment. Cannot be undone."
    ),
]


@boundary
def migrate(output: Output = Format.text, where: Where = HERE) -> int:
    """Make the ledger, or bring it to this twice's schema.

    Every command does so by itself; this is for a database user who alone may change tables.
    """
    from twice.project import ledger

    with where.open() as opened:
        before, after = ledger.migrate(opened)
    if output is Format.json:
        print_json({"before": before, "after": after})
    elif before == after:
        say(f"the ledger is up to date (schema {after})")
    else:
        say(f"migrated from {f'schema {before}' if before else 'nothing'} to schema {after}")
    return 0


@boundary
def check(output: Output = Format.text, where: Where = HERE) -> int:
    """Compare the ledger with the tables. Exit 1 if they differ.

    It changes neither, but for a ledger from an earlier version, which is brought up to date first. What differs
    endangers no table: every run looks first.
    """
    from twice.project import ledger

    with where.open() as opened:
        differences = ledger.check(opened)
    if output is Format.json:
        print_json({"differences": [asdict(difference) for difference in differences]})
        return 1 if differences else 0
    for difference in differences:
        say(f"{difference.where}: {difference.what}\n  to fix it: {runnable(difference.fix)}", Symbol.NOTICE)
    end = counted(len(differences), "difference") if differences else "the ledger agrees with the tables"
    say(end, Symbol.NOTICE if differences else Symbol.DONE)
    return 1 if differences else 0


@boundary
def rebuild_ledger(output: Output = Format.text, where: Where = HERE) -> int:
    """Rebuild a lost ledger from the tables.

    Runs, generations and marks; a ledger that knows more keeps it.
    """
    from twice.project import ledger

    with where.open() as opened:
        tasks = ledger.rebuild_ledger(opened)
    if output is Format.json:
        print_json({"tasks": [asdict(task) for task in tasks]})
        return 0
    for task in tasks:
        unknown = f", {task.unknown} of unknown provenance" if task.unknown else ""
        say(f"{task.task}: {counted(task.slices, 'slice')}{unknown}")
    say(f"in the ledger: {counted(sum(task.slices for task in tasks), 'published slice')}", Symbol.DONE)
    say(runnable("next: twice status"))
    return 0


@boundary
def export(to: File = None, where: Where = HERE) -> int:
    """Write everything in the ledger as JSON lines. Passwords in URLs are hidden."""
    from twice.core.names.reference import hide_passwords_in
    from twice.project import ledger

    count = 0
    with where.open() as opened, _writing_to(to) as out:
        for count, row in enumerate(ledger.export(opened)):  # noqa: B007 - the first row is the header
            out.write(json.dumps(hide_passwords_in(row), default=plain, ensure_ascii=False) + "\n")
    if to is not None:
        say(f"{counted(count, 'row')} written to {to}")
    return 0


@boundary
def unassigned(
    take: Take = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """List records from before the ledger knew environments whose owner no table has shown.

    Nothing of them is ever sent. With --take, all of a task's are given to this environment, for good: another
    environment that wrote some of them has no record of those any more.
    """
    from twice.project import ledger

    with where.open() as opened:
        if take is not None:
            ledger.take_unassigned(opened, take)
        found, unasked = ledger.unassigned(opened), ledger.tables_to_ask(opened)
    if output is Format.json:
        print_json({"unassigned": [asdict(each) for each in found], "tables_to_ask": list(unasked)})
        return 0
    for each in found:
        parts = [counted(each.attempts, "attempt")] if each.attempts else []
        parts += [counted(each.slices, "slice")] if each.slices else []
        parts += [counted(each.effects, "effect")] if each.effects else []
        parts += [f"{each.unsent:,} unsent"] if each.unsent else []
        parts += [counted(each.batches, "batch", "batches")] if each.batches else []
        say(f"{each.task}: {', '.join(parts)}")
    if not found:
        say("no record is unassigned: each belongs to an environment")
    elif unasked:
        say(f"the tables of {', '.join(unasked)} were not asked yet which of these records are theirs")
        say(runnable("next: twice ledger check (it asks them; no effect is sent)"))
    else:
        say("the tables were asked, and none shows that these records are its own; none of their effects is sent")
        say(runnable("next: twice ledger unassigned --take TASK, if this environment wrote all records of the task"))
    return 0


@boundary
def prune(
    older_than: OlderThan = "90d",
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Delete old records that no later run depends on.

    What a later run, plan, status or effect is decided by stays, however old. History goes: old attempts, the texts of
    sent effects, older proofs, and backfills that are over and restated nothing: they cannot be shown or resumed then.
    """
    age = _age(older_than)
    from twice.project import ledger

    with where.open() as opened:
        tidied = ledger.prune(opened, age)
    if output is Format.json:
        print_json({"pruned": {**asdict(tidied.ledger), "commits": tidied.commits}, "unasked": list(tidied.unasked)})
        return 1 if tidied.unasked else 0
    gone = tidied.ledger
    say(
        f"{counted(gone.attempts, 'attempt')}, {counted(gone.effects, 'effect')} never to be sent, the texts of "
        f"{counted(gone.texts, 'sent one')}, {counted(gone.backfills, 'backfill')}, {counted(gone.proofs, 'proof')} "
        f"and the authors of {counted(tidied.commits, 'old PostgreSQL commit')} deleted from the records. "
        "No table was changed."
    )
    return print_unreadable(tidied.unasked, runnable("next: twice ledger prune, when it can be read again"))


def _age(text: str) -> timedelta:
    if not re.fullmatch(r"[0-9]{1,5}d", text):
        raise UsageError(f"{text!r} is not a number of days", fix="Write it like 90d.")
    return timedelta(days=int(text[:-1]))


@contextmanager
def _writing_to(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    try:
        # Only for its owner, as the ledger is.
        file = os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", fix="Give another path.") from error
    with file:
        yield file
