"""run, restate, retry and plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated

import typer

from twice.cli.hints import runnable
from twice.cli.options import (
    HERE,
    Date,
    Format,
    Output,
    TaskName,
    Wait,
    Where,
    boundary,
    print_json,
    run_data,
    without_earlier,
)
from twice.cli.run_text import (
    dated,
    print_ends,
    print_explanation,
    print_forecast,
    print_last_line,
    print_plans,
    print_result,
    printing_others,
)
from twice.core.project.selector import only_name
from twice.core.results.run import RunRequest
from twice.errors import UsageError

Tasks = Annotated[
    list[str] | None, typer.Argument(metavar="TASK", help="Tasks: name, name+, +name, tag:word (or --all).")
]
Everything = Annotated[bool, typer.Option("--all", help="Every task of that date, in the order of their inputs.")]
Parallel = Annotated[int, typer.Option("--parallel", help="Of several tasks, how many at once.", min=1, max=64)]
Start = Annotated[str | None, typer.Option("--start", help="With --end: a data interval, e.g. an orchestrator's.")]
Silent = Annotated[bool, typer.Option("--silent", help="Publish without sending effects.")]
End = Annotated[str | None, typer.Option("--end", help="Where the data interval ends (not included).")]


@boundary
def run(
    tasks: Tasks = None,
    everything: Everything = False,
    date: Date = None,
    start: Start = None,
    end: End = None,
    wait: Wait = None,
    silent: Silent = False,
    parallel: Parallel = 1,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Compute and publish a slice, unless it is already up to date.

    Up to date: it was published by the same code from the same inputs. Several tasks: each after those it reads from.
    """
    single = start is not None or end is not None or silent
    if everything:
        if tasks or single:
            raise UsageError(
                "--all takes a --date, no task, no interval and no --silent", fix="twice run --all --date 2026-06-09"
            )
        return _run_all((), date, _Together(_patience(wait), parallel), output, where)
    if not tasks:
        raise UsageError("no task given", fix="Name one, or run them all with --all.")
    task = only_name(tasks)
    if task is None:
        if single:
            raise UsageError(
                "several tasks take a --date, no interval and no --silent",
                fix=f"twice run {' '.join(tasks)} --date 2026-06-09",
            )
        return _run_all(tasks, date, _Together(_patience(wait), parallel), output, where)
    return _run(_NamedSlices(task, date, start, end), RunRequest("run", _patience(wait), silent), output, where)


@boundary
def restate(
    task: TaskName,
    date: Date = None,
    wait: Wait = None,
    silent: Silent = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Compute a published slice again.

    On purpose, whatever changed or not; says IDENTICAL or CHANGED.
    """
    return _run(_NamedSlices(task, date), RunRequest("restate", _patience(wait), silent), output, where)


@boundary
def retry(
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="TASK", help="Tasks: name, name+, +name, tag:word (or --failed).")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="What failed, of every task.")] = False,
    date: Date = None,
    wait: Wait = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Try again what failed, also if it is quarantined.

    One slice of a task (--date), all failed slices of tasks, or those of every task (--failed). It looks first.
    """
    if failed == bool(tasks) or (date is not None and only_name(tasks or ()) is None):
        raise UsageError(
            "retry takes a task, with or without a --date, or several, or --failed",
            fix="twice retry revenue_daily --date 2026-06-09, or twice retry --failed",
        )
    from twice.project import run as runs

    with where.open() as opened:
        return print_ends(lambda report: runs.retry(opened, tasks or (), date, _patience(wait), report), output)


@boundary
def plan(
    tasks: Tasks = None,
    everything: Everything = False,
    date: Date = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Say what a run would do, and why. Writes to no table."""
    from twice.project import run as runs

    if everything == bool(tasks):
        raise UsageError(
            "plan takes a task, or --all",
            fix="twice plan revenue_daily --date 2026-06-09, or twice plan --all --date 2026-06-09",
        )
    task = only_name(tasks or ())
    if task is None:
        with where.open() as opened:
            which = runs.chosen(opened, tasks or ())
            return print_plans(lambda report: runs.plan_all(opened, date, report, which), date, output)
    with where.open() as opened:
        forecasts = runs.plan(opened, task, date)
    if output is Format.json:
        print_json({"plan": [without_earlier(asdict(explain)) for explain in forecasts]})
    else:
        for explain in forecasts:
            print_explanation(explain)
        print_forecast(forecasts)
    return 0


@dataclass(frozen=True)
class _NamedSlices:
    """The task and the slices that a command names: by a date, or by the ends of an interval."""

    task: str
    date: str | None
    start: str | None = None
    end: str | None = None


def _run(asked: _NamedSlices, request: RunRequest, output: Format, where: Where) -> int:
    from twice.project import run as runs

    with where.open() as opened:
        slices = runs.slices(opened, asked.task, asked.date, _interval(asked))
        with printing_others(output):
            results = runs.run(opened, asked.task, slices, request)
    if output is Format.json:
        print_json({"results": [run_data(result) for result in results]})
    else:
        for result in results:
            print_result(result)
        print_last_line(results, runnable(f"next: twice history {asked.task}{dated(results[-1])}"))
    return 0


@dataclass(frozen=True)
class _Together:
    """How several tasks are run: how long each waits for a busy slice, and how many at once."""

    wait: timedelta | None
    parallel: int


def _run_all(selectors: Sequence[str], date: str | None, how: _Together, output: Format, where: Where) -> int:
    """Those that the selectors choose; without any, all of the project."""
    from twice.project import run as runs

    with where.open() as opened:
        which = runs.chosen(opened, selectors, how.parallel)
        return print_ends(lambda report: runs.run_all(opened, date, how.wait, report, which), output)


def _patience(wait: float | None) -> timedelta | None:
    return None if wait is None else timedelta(seconds=wait)


def _interval(asked: _NamedSlices) -> tuple[datetime, datetime] | None:
    start, end = asked.start, asked.end
    if start is None and end is None:
        return None
    if start is None or end is None or asked.date is not None:
        raise UsageError("--start and --end go together, and without --date", fix="Give both, or one --date.")
    from twice.project.run import moment

    return moment(start), moment(end)
