"""The command line's verbs in Python: for a notebook, a test, or an orchestrator's worker.

Each opens the project that the folder `project` is in, does one thing and closes it. The Spark session is the one that
runs in this process already, or else one that is started and stays. `date` is a logical date: the clock is never asked.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from twice.core.backfill.plan import CHOICES, DEFAULT, BatchSize, Request, SliceStatus, parse_batch, parse_only
from twice.core.backfill.result import BackfillResult, as_result
from twice.core.results.proof import Proof
from twice.core.results.run import RunResult, last_of
from twice.core.results.status import History, Status
from twice.core.table.token import Kind
from twice.core.task import Task
from twice.errors import UsageError
from twice.project import backfill as backfills
from twice.project import inspect, upkeep
from twice.project import prove as proofs
from twice.project import run as runs
from twice.runtime.backfill.worker import Stop
from twice.runtime.run.explain import Explanation
from twice.runtime.upkeep.recover import Recovered
from twice.wiring import open_project as opening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    task: Task | str,
    *,
    date: str | datetime.date | None = None,
    interval: tuple[str | datetime.datetime, str | datetime.datetime] | None = None,
    wait: float | datetime.timedelta | None = None,
    silent: bool = False,
    project: str | Path = ".",
    profile: str | None = None,
) -> RunResult:
    """Make a slice right, once: publish it, unless the same code on the same inputs is published already.

    `date` names the slice, or `interval` all slices from its start to its end (not included). The result is that of
    the last slice; `earlier` has the runs before it, oldest first: those of an interval, or of the scope's `lookback`.
    `wait`: seconds to wait for a busy slice. `silent`: send no effects. A run that fails raises its `TwiceError`,
    after the other slices were tried.
    """
    return _run("run", task, date, interval, wait, silent, project, profile)


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
    return _run("restate", task, date, None, wait, silent, project, profile)


def retry(
    task: Task | str | None = None,
    *,
    date: str | datetime.date | None = None,
    wait: float | datetime.timedelta | None = None,
    project: str | Path = ".",
    profile: str | None = None,
) -> tuple[RunResult, ...]:
    """Try again what failed, also if it is quarantined: one slice of a task (`date`), all its failed slices, or
    those of every task. Empty if nothing had failed. The first failure is raised when all were tried."""
    if task is None and date is not None:
        raise UsageError("a date is of one task", fix='Name it: retry("revenue_daily", date="2026-06-09").')
    with _open(project, profile) as opened:
        ends = runs.retry(opened, None if task is None else _name(task), _label(date), _patience(wait))
    for end in ends:
        if end.error is not None:
            raise end.error
    return tuple(result for end in ends for result in end.results)


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
        *earlier, explanation = runs.plan(opened, _name(task), _label(date))
        return replace(explanation, earlier=tuple(earlier))


def status(
    task: Task | str | None = None,
    *,
    limit: int | None = None,
    project: str | Path = ".",
    profile: str | None = None,
) -> Status:
    """What is published, what failed, what is stale, as far as the ledger knows: of one task or of all. Starts no
    Spark. `limit`: so many slices at most."""
    with _open(project, profile) as opened:
        return inspect.status(opened, None if task is None else _name(task), limit)


def history(
    task: Task | str,
    *,
    date: str | datetime.date | None = None,
    limit: int = 20,
    project: str | Path = ".",
    profile: str | None = None,
) -> History:
    """Every attempt at a task, or at one slice of it, and why it was made; newest first. Starts no Spark."""
    with _open(project, profile) as opened:
        return inspect.history(opened, _name(task), _label(date), limit)


def backfill(
    task: Task | str,
    start: str,
    end: str,
    *,
    only: Sequence[SliceStatus] | None = None,
    parallel: int = 1,
    reverse: bool = False,
    batch: BatchSize = "auto",
    dry_run: bool = False,
    name: str | None = None,
    effects: Literal["silent", "send"] = "silent",
    restate: bool = False,
    downstream: bool = False,
    project: str | Path = ".",
    profile: str | None = None,
) -> BackfillResult:
    """Make the slices from `start` to `end` (both included) right, by a plan that is made once and stored. A second
    call of the same backfill resumes it, and tries again what failed. Failures are in the result, not raised."""
    chosen = parse_only(",".join(only or (CHOICES if restate else DEFAULT)))
    silent = effects == "silent"
    request = Request(_name(task), start, end, chosen, reverse, parse_batch(str(batch)), restate, silent, downstream)
    with _open(project, profile) as opened:
        if dry_run:
            return as_result(backfills.plan(opened, request, name))
        record, _ = backfills.start(opened, request, name)
        backfills.work(opened, record.name, lambda _: None, Stop.never(), parallel)
        return backfills.show(opened, record.name)


def recover(*, project: str | Path = ".", profile: str | None = None) -> tuple[Recovered, ...]:
    """Settle attempts that went silent, by what the tables show; what became of each. It never runs a task, and a
    second call finds nothing."""
    with _open(project, profile) as opened:
        return upkeep.recover(opened)


def prove(
    task: Task | str | Callable[[SparkSession, Path], object],
    *,
    date: str | datetime.date | None = None,
    scenarios: Sequence[str] = (),
    project: str | Path = ".",
    profile: str | None = None,
    tables: Sequence[str] | None = None,
    warehouse: str | Path = "warehouse",
) -> Proof:
    """Run one slice of a task twice, crash it, shuffle it, in a scratch copy: is its table that of one clean run?

    `scenarios`: only these. Nothing of the project is written but its ledger, which remembers the proof. `tables` and
    `warehouse` are deprecated: a job that does not use twice is proved by `prove_job`.
    """
    if not isinstance(task, Task | str):
        warnings.warn("twice.prove(job, tables=…) is now twice.prove_job(job, tables=…)", DeprecationWarning, 2)
        return prove_job(task, tables=tables or (), warehouse=warehouse, scenarios=scenarios)
    if tables is not None:
        raise UsageError("tables= is for a job that does not use twice", fix="Leave it out, or call prove_job.")
    with _open(project, profile) as opened:
        return proofs.prove(opened, _name(task), _label(date), scenarios)


def prove_job(
    job: Callable[[SparkSession, Path], object],
    *,
    tables: Sequence[str],
    warehouse: str | Path = "warehouse",
    scenarios: Sequence[str] = (),
) -> Proof:
    """Prove a PySpark job that does not use twice. `job` is called several times with a session and the folder of a
    copy of `warehouse`: it must read and write there. `tables` are what it writes, compared after each time."""
    return proofs.prove_job(job, tables, Path(warehouse), scenarios)


def session(project: str | Path = ".", profile: str | None = None) -> SparkSession:
    """The project's Spark session, for tests and notebooks; the one already running, if there is one."""
    found: SparkSession = opening.session(Path(project), profile)
    return found


def _run(
    kind: Kind,
    task: Task | str,
    date: str | datetime.date | None,
    interval: tuple[str | datetime.datetime, str | datetime.datetime] | None,
    wait: float | datetime.timedelta | None,
    silent: bool,
    project: str | Path,
    profile: str | None,
) -> RunResult:
    if date is not None and interval is not None:
        raise UsageError("a date and an interval were given", fix="Give one of them.")
    between = None if interval is None else (runs.moment(interval[0]), runs.moment(interval[1]))
    with _open(project, profile) as opened:
        slices = runs.slices(opened, _name(task), _label(date), between)
        return last_of(runs.run(opened, _name(task), slices, kind, _patience(wait), silent))


def _open(project: str | Path, profile: str | None) -> AbstractContextManager[opening.OpenProject]:
    return opening.open_project(Path(project), profile)


def _name(task: Task | str) -> str:
    if isinstance(task, str):
        return task
    if not isinstance(task, Task):
        raise UsageError(
            f"a {type(task).__name__} is not a task", fix="Give a task's name, or what @task or sql_task(…) returned."
        )
    return task.name


def _label(date: str | datetime.date | None) -> str | None:
    return date.isoformat() if isinstance(date, datetime.date) else date


def _patience(wait: float | datetime.timedelta | None) -> datetime.timedelta | None:
    return wait if wait is None or isinstance(wait, datetime.timedelta) else datetime.timedelta(seconds=wait)
