"""The command line's verbs in Python: for a notebook, a test, or an orchestrator's worker.

Each opens the project that the folder `project` is in, does one thing and closes it. The Spark session is the one that
runs in this process already, or else one that is started and stays. `date` is a logical date: the clock is never asked.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from twice.api import arguments
from twice.api.boundary import keyword_only, renamed, verb
from twice.core.backfill.plan import BackfillRequest, BatchSize, StatusChoice
from twice.core.backfill.result import BackfillResult, as_result
from twice.core.hints import Hints, hints_for
from twice.core.results.recover import RecoverResult
from twice.core.results.run import RetryResult, RunAllResult, RunRequest, RunResult, StaleSlice, last_of
from twice.core.results.status import History, Status
from twice.core.task import Task
from twice.errors import UsageError
from twice.project import backfill as backfills
from twice.project import inspect, upkeep
from twice.project import run as runs
from twice.project import status as statuses
from twice.project.task_argument import declared_as, name_of
from twice.runtime.backfill.worker import Stop
from twice.runtime.run.chain import TaskEnd
from twice.runtime.run.explain import Explanation
from twice.runtime.staleness.stale import Stale
from twice.wiring import open_project as opening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@verb
def run(
    task: Task | str,
    *,
    date: str | datetime.date | None = None,
    interval: tuple[str | datetime.date, str | datetime.date] | None = None,
    wait: float | datetime.timedelta | None = None,
    silent: bool = False,
    project: str | Path = ".",
    profile: str | None = None,
) -> RunResult:
    """Compute and publish a slice, unless it is already up to date: published by the same code from the same inputs.

    `date` names the slice. `interval` is an orchestrator's data interval, and its end is NOT included:
    `interval=("2026-06-01", "2026-06-03")` is the two slices 2026-06-01 and 2026-06-02, as on the command line
    `--start 2026-06-01 --end 2026-06-03`. (`backfill` takes the first and the last slice instead.)

    The result is that of the last slice; `earlier` has the runs before it, oldest first: those of an interval, or of
    the scope's `lookback`. `wait`: seconds to wait for a busy slice. `silent`: send no effects. A run that fails raises
    its `TwiceError`, after the other slices were tried.
    """
    asked = _Asked(task, date, interval)
    return _run(asked, RunRequest("run", arguments.seconds(wait), silent), project, profile)


@verb
def run_all(
    *,
    date: str | datetime.date | None = None,
    select: Sequence[str] = (),
    parallel: int = 1,
    wait: float | datetime.timedelta | None = None,
    project: str | Path = ".",
    profile: str | None = None,
) -> RunAllResult:
    """Every task of a date, each after the tasks it reads from, and what reads a slice that was published again.

    A task that fails stops only what depends on it; the first failure is raised when all others were tried, and a
    second call does only what is left. `select`: only these tasks, such as `["revenue_daily+", "tag:finance"]`.
    `parallel`: so many tasks at once. `wait`: seconds to wait for a busy slice.
    """
    patience, selectors = arguments.seconds(wait), arguments.several("select", select)
    arguments.number("parallel", parallel, arguments.MOST_PARALLEL)
    with _open(project, profile) as opened:
        which = runs.chosen(opened, selectors, parallel)
        ends = runs.run_all(opened, arguments.label(date), patience, which=which)
    _raise_first_error(ends)
    hints = _hints(project, profile)
    return RunAllResult(
        tuple(_reworded(result, hints) for end in ends for result in end.results),
        {end.task: end.left_out for end in ends if end.left_out},
        tuple(_stale(each, hints) for end in ends for each in end.stale),
    )


@verb
def restate(
    task: Task | str,
    *,
    date: str | datetime.date | None = None,
    wait: float | datetime.timedelta | None = None,
    silent: bool = False,
    project: str | Path = ".",
    profile: str | None = None,
) -> RunResult:
    """Compute a published slice again on purpose. `outcome` is IDENTICAL or CHANGED."""
    return _run(_Asked(task, date), RunRequest("restate", arguments.seconds(wait), silent), project, profile)


@verb
def retry(
    task: Task | str | None = None,
    *,
    date: str | datetime.date | None = None,
    wait: float | datetime.timedelta | None = None,
    project: str | Path = ".",
    profile: str | None = None,
) -> RetryResult:
    """Try again what failed, also if it is quarantined: one slice of a task (`date`), all its failed slices, or
    those of every task. The result is a sequence of runs, empty if nothing had failed. The first failure is raised when
    all were tried."""
    if task is None and date is not None:
        raise UsageError("a date needs one task", fix='Name it: retry("revenue_daily", date="2026-06-09").')
    with _open(project, profile) as opened:
        names = () if task is None else (declared_as(opened, task),)
        ends = runs.retry(opened, names, arguments.label(date), arguments.seconds(wait))
    _raise_first_error(ends)
    hints = _hints(project, profile)
    return RetryResult(
        tuple(_reworded(result, hints) for end in ends for result in end.results),
        {end.task: end.left_out for end in ends if end.left_out},
    )


@verb
def plan(
    task: Task | str,
    *,
    date: str | datetime.date | None = None,
    project: str | Path = ".",
    profile: str | None = None,
) -> Explanation:
    """What a run would do, and why. Writes to no table. `earlier` has the slices of the scope's `lookback`, which the
    same run would look at first."""
    with _open(project, profile) as opened:
        *earlier, explanation = runs.plan(opened, declared_as(opened, task), arguments.label(date))
        return replace(explanation, earlier=tuple(earlier))


@verb
def status(
    task: Task | str | None = None,
    *,
    limit: int | None = None,
    refresh: bool = False,
    project: str | Path = ".",
    profile: str | None = None,
) -> Status:
    """What is published, what failed, what is stale, as far as the ledger knows and the last look found: of one task or
    of all. `refresh`: the tables are looked at again; only then may Spark be started. `limit`: so many slices at most.

    `tasks` has each task at a glance: what is missing, failed or stale of it, and why."""
    arguments.number("limit", limit)
    with _open(project, profile) as opened:
        return statuses.status(opened, None if task is None else name_of(task), limit, refresh)


@verb
def history(
    task: Task | str,
    *,
    date: str | datetime.date | None = None,
    limit: int = 20,
    project: str | Path = ".",
    profile: str | None = None,
) -> History:
    """Every attempt at a task, or at one slice of it, and why it was made; newest first. Starts no Spark. `limit`: so
    many attempts at most."""
    arguments.number("limit", limit)
    with _open(project, profile) as opened:
        return inspect.history(opened, name_of(task), arguments.label(date), limit)


@renamed(start="first", end="last", downstream="with_downstream")
@verb
def backfill(
    task: Task | str,
    first: str | datetime.date,
    last: str | datetime.date,
    *,
    only: Sequence[StatusChoice] | None = None,
    parallel: int = 1,
    reverse: bool = False,
    batch: BatchSize = "auto",
    dry_run: bool = False,
    name: str | None = None,
    effects: Literal["silent", "send"] = "silent",
    restate: bool = False,
    with_downstream: bool = False,
    project: str | Path = ".",
    profile: str | None = None,
) -> BackfillResult:
    """Make the slices from the `first` to the `last` right, by a plan that is made once and stored.

    Both are slices, and both are INCLUDED: `backfill("revenue_daily", "2026-06-01", "2026-06-03")` is the three slices
    2026-06-01, 2026-06-02 and 2026-06-03, as on the command line `--from 2026-06-01 --to 2026-06-03`. (The end of the
    `interval` of `run` is not included.)

    A second call of the same backfill resumes it, and tries again what failed. Failures are in the result, not raised.
    `only`: which of the slices, by their status; if it is not given, the missing and the failed ones. `dry_run`: the
    plan alone, nothing is stored or started. `effects`: none is sent unless it is `"send"`.
    """
    ends = str(arguments.label(first)), str(arguments.label(last))
    chosen, silent = arguments.statuses(only, restate), arguments.is_silent(effects)
    size = arguments.batch_of(batch)
    arguments.number("parallel", parallel, arguments.MOST_PARALLEL)
    with _open(project, profile) as opened:
        known = declared_as(opened, task)
        request = BackfillRequest(known, *ends, chosen, reverse, size, restate, silent, with_downstream)
        if dry_run:
            result = as_result(backfills.plan(opened, request, name))
        else:
            result = _carried_out(opened, request, name, parallel)
    return replace(result, notes=_in_python(result.notes, _hints(project, profile)))


@verb
def recover(*, project: str | Path = ".", profile: str | None = None) -> RecoverResult:
    """Find out how attempts ended that stopped reporting, from what the tables show. It never runs a task, and a second
    call finds nothing. The result is a sequence of the attempts that were settled."""
    with _open(project, profile) as opened:
        return upkeep.recover(opened)


@keyword_only("project", "profile")
@verb
def session(*, project: str | Path = ".", profile: str | None = None) -> SparkSession:
    """The project's Spark session, for tests and notebooks; the one already running, if there is one."""
    found: SparkSession = opening.session(Path(project), profile)
    return found


@dataclass(frozen=True)
class _Asked:
    """The task and the slices that a caller names: by a date, or by the ends of an interval."""

    task: Task | str
    date: str | datetime.date | None = None
    interval: tuple[str | datetime.date, str | datetime.date] | None = None

    def __post_init__(self) -> None:
        if self.date is not None and self.interval is not None:
            raise UsageError("a date and an interval were given", fix="Give one of them.")


def _run(asked: _Asked, request: RunRequest, project: str | Path, profile: str | None) -> RunResult:
    ends = asked.interval
    between = None if ends is None else (runs.moment(ends[0]), runs.moment(ends[1]))
    with _open(project, profile) as opened:
        name = declared_as(opened, asked.task)
        slices = runs.slices(opened, name, arguments.label(asked.date), between)
        return _reworded(last_of(runs.run(opened, name, slices, request)), _hints(project, profile))


def _carried_out(
    opened: opening.OpenProject, request: BackfillRequest, name: str | None, parallel: int
) -> BackfillResult:
    """With the notes of a new plan as they were made: those that are stored have the words of the command line."""
    record, plan = backfills.start(opened, request, name)
    backfills.work(opened, record.name, lambda _: None, Stop.never(), parallel)
    result = backfills.show(opened, record.name)
    return result if plan is None else replace(result, notes=plan.notes)


def _raise_first_error(ends: Sequence[TaskEnd]) -> None:
    for end in ends:
        if end.error is not None:
            raise end.error


def _open(project: str | Path, profile: str | None) -> AbstractContextManager[opening.OpenProject]:
    return opening.open_project(Path(project), profile)


def _hints(project: str | Path, profile: str | None) -> Hints:
    return hints_for(Path(project), profile)


def _stale(each: Stale, hints: Hints) -> StaleSlice:
    way_out = None if each.way_out is None else hints.in_python(each.way_out)
    return StaleSlice(each.task, each.slice.label, each.why, way_out)


def _reworded(run: RunResult, hints: Hints) -> RunResult:
    earlier = tuple(_reworded(each, hints) for each in run.earlier)
    return replace(run, notes=_in_python(run.notes, hints), earlier=earlier)


def _in_python(notes: Sequence[str], hints: Hints) -> tuple[str, ...]:
    return tuple(hints.in_python(note) for note in notes)
