"""Several runs in one call: a slice with its lookback, or every task of a day in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta

from twice.core.failure.interruption import exit_code_of
from twice.core.names.first_few import first_few
from twice.core.project.project import Project
from twice.core.results.run import PLAIN_RUN, RunRequest, RunResult
from twice.core.scope import slice_named, slices_named
from twice.core.slice import Slice
from twice.core.table.token import Kind
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UNCHANGED, BeforeStart, Interrupted, RunError, TwiceError, UsageError
from twice.runtime.context import RunContext
from twice.runtime.run.chain import EVERY_TASK, Report, Selection, TaskEnd, quiet, run_in_order, waits_of
from twice.runtime.run.chain_in_threads import run_in_threads
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.downstream import followed
from twice.runtime.staleness.kept import not_right
from twice.runtime.staleness.stale import Stale, failed_labels, reached
from twice.runtime.table.displaced_rows import to_come_back

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LISTED = 5


def run_slices(
    context: RunContext, task: Task, slices: tuple[Slice, ...], request: RunRequest = PLAIN_RUN
) -> tuple[RunResult, ...]:
    """Each slice in its own run, with the earlier ones its scope looks back to, oldest first.

    A failed slice does not stop the later ones; the first failure is raised when all were tried, and has the `results`
    of the others.
    """
    return _each(context, task, with_lookback(task, slices, request.kind), request)


def retry_slices(
    context: RunContext, task: Task, slices: tuple[Slice, ...], wait: timedelta | None
) -> tuple[RunResult, ...]:
    """Try again, because a person asked for it: exactly these, quarantined or not. What has landed is not repeated.

    Dying after the quarantine is lifted leaves slices that any run may take up.
    """
    context.ledger.lift(task.name, [slice_.label for slice_ in slices])
    return _each(context, task, slices, RunRequest(wait=wait))


def _each(context: RunContext, task: Task, slices: tuple[Slice, ...], request: RunRequest) -> tuple[RunResult, ...]:
    """And once more those whose rows were displaced by what a later one may have deleted. Dying before that leaves them
    stale. The runs of a slice stand together, so that the last one is of the slice that was asked for."""
    results: dict[Slice, list[RunResult]] = {}
    failures: list[TwiceError] = []
    made: list[Slice] = []

    def run(slice_: Slice, request: RunRequest) -> None:
        runs = results.setdefault(slice_, [])
        try:
            runs.append(run_task(context, task, (slice_,), request))
            while runs[-1].more:  # what an earlier attempt began is done; now what came since
                runs.append(run_task(context, task, (slice_,), request))
            made.append(slice_)
        except TwiceError as error:
            failures.append(error)

    with _telling(results, failures):
        for at, slice_ in enumerate(slices, 1):
            context.progress.counts(at, len(slices), "slice")
            run(slice_, request)
        for slice_ in to_come_back(context.ledger, task, made):
            run(slice_, RunRequest(wait=request.wait, silent=request.silent))
        if failures:
            raise failures[0]
    return _flat(results)


Results = Mapping[Slice, Sequence[RunResult]]


def _flat(results: Results) -> tuple[RunResult, ...]:
    return tuple(result for runs in results.values() for result in runs)


@contextmanager
def _telling(results: Results, failures: Sequence[TwiceError]) -> Iterator[None]:
    """An error speaks for its own slice: what became of the others of the call is said after it, and goes with it."""
    try:
        yield
    except TwiceError as error:
        _tell(error, _flat(results), [each for each in failures if each is not error])
        raise
    except Interrupted as interrupt:
        _tell(interrupt.error, _flat(results), failures)
        raise
    except KeyboardInterrupt as interrupt:
        between = RunError("interrupted between two attempts", fix="Run it again: it will look first.")
        _tell(between, _flat(results), failures)
        raise Interrupted(between, exit_code_of(interrupt)) from interrupt


def _tell(error: TwiceError, done: tuple[RunResult, ...], failed: Sequence[TwiceError]) -> None:
    error.results = done
    published = list(dict.fromkeys(slice_.label for result in done for slice_ in result.slices))
    if published:
        error.now = error.now.replace(UNCHANGED, "This attempt changed nothing.")
        error.now += f" Published, of the same call: {first_few(published, _LISTED)}."
    if failed:
        error.now += f" Failed, too: {first_few([f'{each.where} ({each.code})' for each in failed], _LISTED)}."


def retry_failed(
    context: RunContext, names: Iterable[str], wait: timedelta | None, report: Report = quiet
) -> tuple[TaskEnd, ...]:
    """Every failed slice of these tasks, in the order of their inputs. What the task's scope has no more (its `start`
    is later now) is left out by name, and stops no other."""
    labels = {name: found for name in names if (found := failed_labels(context.ledger, name))}
    if not labels:
        return ()
    slices = {name: slices_named(context.project.task(name).scope, failed) for name, failed in labels.items()}
    order = [task.name for task in context.project.in_order() if task.name in labels]
    gone = {name: [x for x in labels[name] if x not in {each.label for each in slices[name]}] for name in labels}

    def again(task: Task) -> tuple[RunResult, ...]:
        if task.name in labels:
            context.progress.counts(order.index(task.name) + 1, len(order), "task")
        results = retry_slices(context, task, slices.get(task.name, ()), wait)
        return _naming(results, gone.get(task.name, ()))

    def with_reason(end: TaskEnd) -> TaskEnd:
        nothing = gone[end.task] and not (end.results or end.error or end.waits_for)
        return replace(end, left_out=_no_more(gone[end.task])) if nothing else end

    def report_failed(end: TaskEnd) -> None:
        if end.task in labels:
            report(with_reason(end))

    ends = run_in_order(context.project, again, report_failed)
    return tuple(with_reason(end) for end in ends if end.task in labels)


def _naming(results: tuple[RunResult, ...], gone: Sequence[str]) -> tuple[RunResult, ...]:
    if not results or not gone:
        return results
    *earlier, last = results
    return (*earlier, replace(last, notes=(*last.notes, f"not everything that failed was tried: {_no_more(gone)}")))


def _no_more(labels: Sequence[str]) -> str:
    return f"the task's scope no longer has {', '.join(labels)}"


def run_all(
    context: RunContext,
    date_: str | None,
    wait: timedelta | None,
    report: Report = quiet,
    which: Selection = EVERY_TASK,
) -> tuple[TaskEnd, ...]:
    """The chosen tasks of a date, each after those it reads from; and what reads a slice that the chain made again
    (`lookback` makes yesterday's) and was published before, down the graph. What else is stale is reported, not made.

    What is followed comes from the ledger, not from this process: after a crash the next chain of the date follows it.
    `report` gets each task's end without what is stale, which is known when all have ended.
    """
    return chain_of_date(
        context, date_, lambda task, each: _each(context, task, each, RunRequest(wait=wait)), report, which
    )


def chain_of_date(
    context: RunContext,
    date_: str | None,
    run_these: Callable[[Task, tuple[Slice, ...]], tuple[RunResult, ...]],
    report: Report = quiet,
    which: Selection = EVERY_TASK,
) -> tuple[TaskEnd, ...]:
    """The same, with what is done for the slices of a task that the chain deals with."""
    slices, left_out = of_date(context.project, date_, which.tasks)
    done: dict[str, set[str]] = {}
    order = list(waits_of(context.project, which.tasks))

    def run(task: Task) -> tuple[RunResult, ...]:
        context.progress.counts(order.index(task.name) + 1, len(order), "task")
        context.progress.begins("look", task.name)
        wanted = {each.label: each for each in with_lookback(task, slices.get(task.name, ()), "run")}
        wanted.update(followed(context, task, done))
        done[task.name] = set(wanted) | reached(context.project, context.ledger, task, done)
        return run_these(task, tuple(sorted(wanted.values())))

    def with_reason(end: TaskEnd) -> TaskEnd:
        return replace(end, left_out=_nothing_of(end, left_out))

    def tell(end: TaskEnd) -> None:
        report(with_reason(end))

    if which.parallel == 1:
        ends = run_in_order(context.project, run, tell, which.tasks)
    else:
        ends = run_in_threads(context, run, tell, which)
    return tuple(replace(with_reason(end), stale=_left(context, end)) for end in ends)


def of_date(
    project: Project, date_: str | None, chosen: Sequence[Task] | None = None
) -> tuple[dict[str, tuple[Slice, ...]], dict[str, str]]:
    """What each chosen task does for the date, and the tasks that begin later, with the reason."""
    slices: dict[str, tuple[Slice, ...]] = {}
    later: dict[str, BeforeStart] = {}
    for task in project.tasks.values() if chosen is None else chosen:
        name = task.name
        try:
            slices[name] = slices_of_day(task, date_)
        except BeforeStart as error:
            later[name] = error
    if later and not slices:
        raise next(iter(later.values()))
    return slices, {name: error.what for name, error in later.items()}


def _nothing_of(end: TaskEnd, left_out: Mapping[str, str]) -> str | None:
    """Why a task had nothing to do. One that begins later may have read the day before its first: that was followed."""
    return None if end.results or end.error else left_out.get(end.task)


def _left(context: RunContext, end: TaskEnd) -> tuple[Stale, ...]:
    if end.error or end.waits_for:
        return ()
    task = context.project.task(end.task)
    return not_right(context.project, context.ledger, task, context.code_of(task))


def slices_of_day(task: Task, text: str | None) -> tuple[Slice, ...]:
    """What one task of a chain does for the chain's date: its day, the hours of that day, or the month it lies in.
    A task that owns its whole table, or goes on from a mark, needs no date."""
    if not isinstance(task.scope, TimeScope):
        return (slice_named(task.scope, None),)
    if text is None or not _DAY.fullmatch(text):
        return (slice_named(task.scope, text),)
    try:
        return task.scope.covering(date.fromisoformat(text))
    except ValueError:
        raise UsageError(f"{text} is not a day", where=task.name, fix="Give a day of the calendar.") from None


def with_lookback(task: Task, slices: tuple[Slice, ...], kind: Kind) -> tuple[Slice, ...]:
    """These slices and the earlier ones that a run of them makes right, too, oldest first."""
    if not isinstance(task.scope, TimeScope) or not task.scope.lookback or kind == "restate":
        return slices
    wanted = {slice_.label: slice_ for slice_ in slices}
    for slice_ in slices:
        wanted.update({early.label: early for early in task.scope.earlier(slice_, task.scope.lookback)})
    return tuple(sorted(wanted.values()))
