"""A worker: claims a batch of a backfill, makes its slices right, records it, takes the next.

Any number of workers, in threads, processes or hosts, share one backfill through the ledger. A worker that dies loses
its claim; the next one looks at the table first, so what had landed is not done again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from twice.core.backfill.plan import PlannedSlice, neighbours
from twice.core.backfill.result import BackfillRecord, BackfillState, BatchClaim, BatchState, Comparison, SliceEnd
from twice.core.failure.failpoints import Crash
from twice.core.failure.transience import CANCELLED, Nature
from twice.core.ledger.record import RunRecord
from twice.core.ports import BackfillStore
from twice.core.results.run import Outcome, RunRequest, RunResult
from twice.core.retry import classify
from twice.core.scope import slice_named, slices_named
from twice.core.slice import Slice
from twice.core.table.token import Kind
from twice.core.task import Task
from twice.engine.causes import JVM_GONE, signs
from twice.errors import EnvironmentProblem, Quarantined, RunError, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.holder import is_gone
from twice.runtime.run.lease import Heartbeat
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.published_since import made_by
from twice.runtime.table.copied import rows_made_at
from twice.runtime.table.displaced_rows import may_be_displaced, to_come_back
from twice.runtime.table.settle import look
from twice.runtime.write_plan import make_write_plan

POLL = 0.5


@dataclass(frozen=True)
class Event:
    """Something to report of a batch: it was `done`, it `failed`, it was `split` to isolate what fails, or it was
    `taken over` by another worker, which goes on with it, after this one had stopped reporting."""

    kind: str
    claim: BatchClaim
    seconds: float
    ends: tuple[SliceEnd, ...] = ()
    error: TwiceError | None = None


Report = Callable[[Event], None]


@dataclass
class Stop:
    """Asked once, a worker finishes the batch in hand and takes no other."""

    asked: threading.Event

    @classmethod
    def never(cls) -> Stop:
        return cls(threading.Event())

    def __call__(self) -> bool:
        return self.asked.is_set()


def work(context: RunContext, name: str, report: Report, stop: Stop, parallel: int = 1) -> BackfillRecord:
    """Work on one backfill until nothing of it is left for this process to do: all done or failed, paused, cancelled,
    or asked to stop. Threads share the session; each run has its own."""
    if parallel == 1:
        _take_turns(context, name, report, stop)
    else:
        _in_threads(context, name, report, stop, parallel)
    if _come_back(context, name, stop):
        context.ledger.backfills.finish(name)
    record = context.ledger.backfills.record(name)
    assert record is not None, name
    return record


def _come_back(context: RunContext, name: str, stop: Stop) -> bool:
    """Once all is done: slices whose rows were displaced by what a later one may have deleted are run once more, by
    whoever finds them so. False: asked to stop before that. Dying in here leaves them stale, for `status` and the next
    plan."""
    book = context.ledger.backfills
    record = book.record(name)
    if record is None or record.state is not BackfillState.RUNNING or record.open:
        return True
    tasks = [task for task in context.project.in_order() if may_be_displaced(task)]
    done = book.batches(name, BatchState.DONE) if tasks else ()
    request = RunRequest(wait=_patience(context), silent=record.request.silent)
    for task in tasks:
        labels = [slice_.label for batch in done if batch.task == task.name for slice_ in batch.slices]
        for slice_ in to_come_back(context.ledger, task, slices_named(task.scope, labels)):
            if stop():
                return False
            run_task(context, task, (slice_,), request)
    return True


def _patience(context: RunContext) -> timedelta:
    """A plain run of the same slice, or a dead worker's lease on it, is waited for."""
    return context.lease + timedelta(seconds=10)


def _in_threads(context: RunContext, name: str, report: Report, stop: Stop, parallel: int) -> None:
    failures: list[BaseException] = []

    def turn() -> None:
        try:
            _take_turns(context, name, report, stop)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that started us
            failures.append(error)
            stop.asked.set()

    threads = [threading.Thread(target=turn, name=f"twice-worker-{at}", daemon=True) for at in range(parallel)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():  # in short waits: a thread that only joins gets no Ctrl-C
                thread.join(POLL)
    except BaseException:
        stop.asked.set()
        raise
    if failures:
        raise failures[0]


def _take_turns(context: RunContext, name: str, report: Report, stop: Stop) -> None:
    book = context.ledger.backfills
    while not stop():
        claim = book.claim(name, context.holder, context.lease)
        if claim is not None:
            report(_work_on(context, book, claim, stop))
            continue
        context.progress.ends()
        record = book.record(name)
        if record is None or record.state is not BackfillState.RUNNING or not record.open:
            return
        if not _freed(book, name):
            stop.asked.wait(POLL)  # others are at work, and may leave something


def _freed(book: BackfillStore, name: str) -> bool:
    """A worker that was killed on this machine need not be waited for."""
    gone = [hold for hold in book.held(name) if is_gone(hold.holder)]
    freed = [book.free(name, hold.number, hold.tries) for hold in gone]
    return any(freed)


def _work_on(context: RunContext, book: BackfillStore, claim: BatchClaim, stop: Stop) -> Event:
    """Dying in here leaves a claim that runs out and slices that are published or not: the next worker looks."""
    began = context.clock.monotonic()
    try:
        with Heartbeat(lambda: book.renew(claim, context.lease), context.lease, context.clock):
            ends = _make_right(context, claim)
    except TwiceError as error:
        took = context.clock.monotonic() - began
        if isinstance(error.__cause__, KeyboardInterrupt) or (stop() and _was_stopped(error)):
            book.release(claim)
            raise KeyboardInterrupt from error
        if _is_of_this_process(error):
            book.release(claim)
            raise
        # What every retry failed on because it was away is not for one of its slices to explain.
        split = len(claim.slices) > 1 and not isinstance(error, Quarantined) and not _passes(context, claim, error)
        mine = book.split(claim) if split else book.failed(claim, error.details(), took)
        if not mine:
            return Event("taken over", claim, took, error=error)
        return Event("split" if split else "failed", claim, took, error=error)
    except BaseException as error:
        if not isinstance(error, Crash):
            book.release(claim)
        raise
    took = context.clock.monotonic() - began
    book.done(claim, ends, took)
    return Event("done", claim, took, ends)


def _is_of_this_process(error: TwiceError) -> bool:
    """Not the slice is wrong but this machine: every other slice would fail here just as well."""
    if isinstance(error, EnvironmentProblem):
        return True
    return any(JVM_GONE.classes[0] in each.classes for each in signs(error))


def _was_stopped(error: TwiceError) -> bool:
    """Its jobs were cancelled: the signal went to the main thread, and this is what reaches another thread."""
    return any(each.condition in CANCELLED for each in signs(error))


def _passes(context: RunContext, claim: BatchClaim, error: TwiceError) -> bool:
    task = context.project.tasks.get(claim.task)
    return task is not None and classify(task.policy.retry, signs(error)).nature is Nature.TRANSIENT


def _make_right(context: RunContext, claim: BatchClaim) -> tuple[SliceEnd, ...]:
    task = context.project.tasks.get(claim.task)
    if task is None:
        raise RunError(
            f"there is no task {claim.task!r} in this project any more",
            where=f"{claim.task}[{claim.labels[0]}]",
            fix="Declare it again (formerly= keeps its history), or cancel the backfill.",
        )
    planned = {slice_named(task.scope, slice_.label): slice_ for slice_ in claim.slices}
    left: tuple[Slice, ...] = tuple(planned)
    ends: dict[str, SliceEnd] = {}
    while left:
        todo = {slice_: planned[slice_] for slice_ in left}
        moved = _made_since(context, task, todo, claim.kind) if claim.kind == "restate" or len(planned) > 1 else {}
        made: list[SliceEnd] = []
        alone: list[tuple[Slice, ...]] = []
        if claim.kind == "restate":  # not done a second time
            made = [SliceEnd(run.label, Outcome.ALREADY.value, run.rows, run.fingerprint) for run in moved.values()]
        else:  # whether it is right by now, its own run finds out; the batch need not be computed again for it
            alone = [(slice_,) for slice_ in moved]
        rest = [slice_ for slice_ in left if slice_ not in moved]
        for group in (*neighbours(rest, len(rest) or 1), *alone):
            made += _run(context, task, group, claim)
        ends.update((end.label, end) for end in made)
        left = tuple(slice_ for slice_ in left if slice_.label not in ends)
    return tuple(sorted(ends.values(), key=lambda end: end.label))


def _made_since(
    context: RunContext, task: Task, planned: Mapping[Slice, PlannedSlice], kind: Kind
) -> Mapping[Slice, RunRecord]:
    """Slices whose generation has moved since the plan was frozen: they were published since, by a worker that
    died before it could record that or by somebody's run. What other code restated meanwhile does not count, nor what
    others may have overwritten, nor what a rebuild has only copied. For a plain run the ledger's record is enough: each
    run looks for itself."""
    overwritten: frozenset[str] = frozenset()
    if kind == "restate":
        plan = make_write_plan(context.project.id, task, tuple(planned))
        target = context.target_of(task.target, context.engine.fresh())
        overwritten = look(context, task, plan, target).overwritten
    runs = context.ledger.runs_of(task.name, [slice_.label for slice_ in planned])
    made = {label: run.generation for label, run in runs.items()}
    if kind == "restate":
        seen = {slice_.label: known.generation for slice_, known in planned.items()}
        made = rows_made_at(context.project.id, task, target, made, seen)
    moved = {
        slice_: runs[slice_.label]
        for slice_, known in planned.items()
        if slice_.label in runs and made[slice_.label] > known.generation
    }
    if kind != "restate":
        return moved
    code = context.code_hash(task)
    return {s: run for s, run in moved.items() if s.label not in overwritten and made_by(code, run.intention)}


def _run(context: RunContext, task: Task, slices: tuple[Slice, ...], claim: BatchClaim) -> list[SliceEnd]:
    """Not every slice has an end if somebody moved one of them first: those that were not moved are still to be
    made."""
    planned = {slice_.label: slice_.generation for slice_ in claim.slices if slice_.status != "downstream"}
    before = context.ledger.runs_of(task.name, [slice_.label for slice_ in slices])
    wait = _patience(context)
    # The generation of a slice below when the plan was made does not matter: what it reads is made later.
    after_fence = None if planned else claim.after_fence
    result = run_task(context, task, slices, RunRequest(claim.kind, wait, claim.silent, planned, after_fence))
    old = {label: run.fingerprint for label, run in before.items() if run.generation and run.fingerprint}
    made = {slice_.label: slice_.fingerprint for slice_ in result.slices}
    changed = [s for s in slices if s.label in old and old[s.label] != made[s.label]]
    compared = _sums(context, task, changed, result) if claim.kind == "restate" else {}
    left = _not_made(context, task, result, planned) if claim.kind == "restate" else set()
    ends = []
    for end in result.slices:
        if end.label in left:
            continue
        comparison = None
        if end.changed is not None and end.label in old and end.rows is not None:
            # The rows of the last publish, put in the place of others: how many those were, the ledger does not know.
            known = not end.changed or old[end.label] != end.fingerprint
            held = before[end.label].rows if known else None
            comparison = Comparison(not end.changed, held, end.rows, compared.get(end.label, {}))
        ends.append(SliceEnd(end.label, result.outcome.value, end.rows, end.fingerprint, comparison))
    return ends


def _not_made(context: RunContext, task: Task, result: RunResult, planned: Mapping[str, int]) -> set[str]:
    """The slices of a lost restatement that are as the plan saw them, or as other code made them since. None of them,
    if that is all: whoever won has taken the table back to where it was, and the next round would find nothing else."""
    if result.outcome not in (Outcome.ALREADY, Outcome.UNKNOWN):
        return set()
    runs, code = context.ledger.runs_of(task.name, [slice_.label for slice_ in result.slices]), context.code_hash(task)
    made = {label for label, run in runs.items() if made_by(code, run.intention)}
    target, held = (
        context.target_of(task.target, context.engine.fresh()),
        {s.label: s.generation for s in result.slices},
    )
    at = rows_made_at(context.project.id, task, target, held, planned)
    left = {label for label in held if at[label] <= planned.get(label, -1) or label not in made}
    return left if len(left) < len(result.slices) else set()


def _sums(
    context: RunContext, task: Task, changed: list[Slice], result: RunResult
) -> Mapping[str, Mapping[str, tuple[str | None, str | None]]]:
    """The sums that differ, by reading both versions of the table: only what changed is read, and only after it is
    published."""
    if not changed or result.version is None:
        return {}
    plan = make_write_plan(context.project.id, task, tuple(changed))
    target = context.target_of(task.target, context.engine.fresh())
    try:
        # Just before our commit: whoever published these slices, there they are as they were.
        old = context.engine.totals(target.read(task.target, result.version - 1), plan.slices)
        new = context.engine.totals(target.read(task.target, result.version), plan.slices)
    except Exception:  # noqa: BLE001 - an old version may be gone (VACUUM); the rows are published all the same
        return {}
    return {
        label: {name: (old[label].get(name), after) for name, after in sums.items() if old[label].get(name) != after}
        for label, sums in new.items()
    }
