"""status and history: what the ledger remembers, as lines, tables and a calendar. No Spark is started for them, but
for `--refresh`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.hints import runnable
from twice.cli.history_text import print_attempts
from twice.cli.options import HERE, Date, Format, Output, TaskName, Where, boundary, print_json
from twice.cli.status_text import (
    WRONG,
    print_not_looked_at,
    print_slices,
    print_tasks,
    print_wrong_slices,
    wrong_slices,
)
from twice.cli.terminal import say
from twice.core.project.selector import choose, only_name
from twice.core.results.calendar import Cell, Page
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.core.ledger.record import AttemptRecord, RunRecord
    from twice.core.results.status import Status, TaskStatus


SomeLimit = Annotated[int | None, typer.Option("--limit", help="How many at most: 50, or all as JSON.", min=1)]
Limit = Annotated[int, typer.Option("--limit", help="How many at most.", min=1)]
_SHOWN = 50


Tasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TASK]", help="One task slice by slice; or several: name+, +name, tag:word."),
]
Drawn = Annotated[bool, typer.Option("--calendar", help="Draw the task's slices by month (or day).")]
Missing = Annotated[bool, typer.Option("--missing", help="List the slices that were never published.")]
Stale = Annotated[bool, typer.Option("--stale", help="List the slices that are not right any more, and why.")]
Failed = Annotated[bool, typer.Option("--failed", help="List the slices whose last attempt failed, and why.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Look at the tables again before; may start Spark.")]


@boundary
def status(
    tasks: Tasks = None,
    missing: Missing = False,
    stale: Stale = False,
    failed: Failed = False,
    refresh: Refresh = False,
    limit: SomeLimit = None,
    calendar: Drawn = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show what is published, what failed, what is stale.

    Each task in a line, or the slices of one, as far as the ledger knows and the last look found. Exit 1 if the last
    attempt at a slice failed, or an effect waits for a person.
    """
    from twice.project import status as statuses

    task = only_name(tasks or ())
    chosen = [name for name, asked in (("failed", failed), ("stale", stale), ("missing", missing)) if asked]
    if calendar:
        if chosen:
            raise UsageError("a calendar shows every state", fix=f"Leave out --calendar or --{chosen[0]}.")
        return _calendar(task, refresh, output, where)
    # A program is given everything, a person the last ones.
    wanted = limit or (None if output is Format.json else _SHOWN)
    with where.open() as opened:
        several = [each.name for each in choose(opened.project, tasks)] if tasks and task is None else None
        found = statuses.status(opened, task if several is None else several, wanted, refresh)
    if output is Format.json:
        print_json(_status_data(found, chosen))
    elif chosen:
        print_wrong_slices(found, chosen, limit or _SHOWN)
    elif task is None:
        print_tasks(found)
    else:
        print_slices(found)
    return 1 if found.needs_attention else 0


def _calendar(task: str | None, refresh: bool, output: Format, where: Where) -> int:
    from twice.project import inspect

    if task is None:
        raise UsageError("a calendar shows one task", fix="Name it: twice status TASK --calendar.")
    with where.open() as opened:
        unseen = inspect.look(opened, task) if refresh else {}
        pages = inspect.calendar(opened, task)
    if output is Format.json:
        print_json({"calendar": [asdict(page) for page in pages], "not_looked_at": unseen})
    elif not pages:
        say(f"nothing of {task} has run yet")
        say(runnable(f"next: twice backfill {task} --from DATE --to DATE --dry-run"))
    else:
        print_calendar(pages)
    if output is Format.text:
        print_not_looked_at(unseen)
    return 1 if unseen or any(cell in ("failed", "quarantined") for page in pages for cell in page.cells) else 0


@boundary
def history(
    task: TaskName,
    date: Date = None,
    limit: Limit = 20,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show every attempt, and why.

    Rows, fingerprint, version, audits, why it was (not) computed, and where the time went.
    """
    from twice.project import inspect

    with where.open() as opened:
        attempts = inspect.history(opened, task, date, limit)
    if output is Format.json:
        print_json({"attempts": [_attempt_data(attempt) for attempt in attempts]})
    elif not attempts:
        say(f"{task}: no attempt yet")
        say(runnable(f"next: twice run {task} --date {date or 'DATE'}"))
    else:
        print_attempts(attempts)
    return 0


def _status_data(found: Status, chosen: Sequence[str]) -> dict[str, Any]:
    return {
        "runs": [
            {
                **_run_data(run),
                "stale": found.stale.get((run.task, run.label)),
                "way_out": found.kept.get((run.task, run.label)),
                "silent": (run.task, run.label) in found.silent,
            }
            for run in found.runs
        ],
        "total": found.total,
        "failed": found.failed,
        "stale": len(found.stale),
        "effects": {state.value: count for state, count in found.effects.items()},
        "proofs": [{**asdict(proof), "current": current} for proof, current in found.proofs],
        "tasks": [_task_data(task) for task in found.tasks],
        "slices": [each._asdict() for each in wrong_slices(found, chosen or WRONG)],
        "not_looked_at": dict(found.not_looked_at),
    }


def _task_data(task: TaskStatus) -> dict[str, Any]:
    return {
        "task": task.task,
        "scope": task.scope,
        "newest": task.newest,
        "published": task.published,
        "missing": len(task.missing),
        "failed": len(task.failed),
        "stale": len(task.stale),
        "running": len(task.running),
        "silent": len(task.silent),
        "proved": task.proved,
        "looked": task.looked,
        "looked_at_this_code": task.looked is not None and task.looked_at_this_code,
    }


def _run_data(run: RunRecord) -> dict[str, Any]:
    return {**asdict(run), "last_state": run.last_state.value if run.last_state else None}


def _attempt_data(attempt: AttemptRecord) -> dict[str, Any]:
    return {**asdict(attempt), "state": attempt.state.value}


# state: shape, shape where the terminal knows no other letters, colour
_LOOKS: dict[Cell, tuple[str, str, str | None]] = {
    "published": ("■", "#", "green"),
    "stale": ("□", "s", "yellow"),
    "failed": ("✗", "x", "red"),
    "quarantined": ("!", "!", "magenta"),
    "at work": ("◌", "~", "yellow"),
    "missing": ("·", ".", None),
    "none": (" ", " ", None),
}


def print_calendar(pages: Sequence[Page]) -> None:
    letters = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    colours = sys.stdout.isatty()
    width = max(len(page.title) for page in pages)
    for page in pages:
        cells = "".join(_drawn(cell, letters, colours) for cell in page.cells)
        print(f"{page.title.ljust(width)}  {cells}".rstrip())
    used = {cell for page in pages for cell in page.cells}
    legend = [f"{_drawn(cell, letters, colours)} {cell}" for cell in _LOOKS if cell in used and cell != "none"]
    print("  ".join(legend))


def _drawn(cell: Cell, letters: bool, colours: bool) -> str:
    shape, plain, colour = _LOOKS[cell]
    drawn = shape if letters else plain
    return typer.style(drawn, fg=colour) if colours and colour else drawn
