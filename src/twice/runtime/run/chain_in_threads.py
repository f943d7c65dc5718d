"""A chain with several tasks at once: threads of this process share the Spark session, and each run has its own.

The thread that was called only waits. It alone reports, and it alone gets signals: what ends it, it hands on to the
others (`stopping`), and it leaves when each of them has freed its slices.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from graphlib import TopologicalSorter
from queue import Empty, SimpleQueue
from typing import NoReturn

from twice.core.failure.interruption import uninterrupted
from twice.core.failure.stopping import Stoppable, waiting_for_threads
from twice.errors import Interrupted, RunError, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.run.attempt import raise_interrupt
from twice.runtime.run.chain import Report, Run, Selection, TaskEnd, end_of, stopped_by, waits_of

POLL = 0.2


def run_in_threads(context: RunContext, run: Run, report: Report, which: Selection) -> tuple[TaskEnd, ...]:
    """As `run_in_order`, several tasks at once. Dying in here is dying in each of the runs that were under way:
    every one of them is looked for by the next run of its slice, and none knows of the others."""
    return _Threads(context, run, report, waits_of(context.project, which.tasks)).with_threads(which.parallel)


class _Threads:
    def __init__(self, context: RunContext, run: Run, report: Report, waits: dict[str, tuple[str, ...]]) -> None:
        self._context, self._run, self._report, self._waits = context, run, report, waits
        self._left: TopologicalSorter[str] = TopologicalSorter(waits)
        self._left.prepare()
        self._todo: SimpleQueue[str | None] = SimpleQueue()
        self._ended: SimpleQueue[TaskEnd | BaseException] = SimpleQueue()
        self._news = threading.Event()
        self._ends: dict[str, TaskEnd] = {}
        self._interrupted: dict[str, TwiceError] = {}
        self._stoppables: list[Stoppable] = []
        self._threads: list[threading.Thread] = []

    def with_threads(self, parallel: int) -> tuple[TaskEnd, ...]:
        self._context.progress.ends()  # this thread has nothing to show: it waits
        with waiting_for_threads():
            try:
                for at in range(min(parallel, len(self._waits))):
                    self._start(at)
                self._begin()
                while self._left.is_active():
                    self._news.wait(POLL)
                    with uninterrupted():
                        self._take()
                self._let_go()
                for thread in self._threads:
                    thread.join()
            except BaseException as asked:  # noqa: BLE001 - always raised again, once the others have ended
                self._end_early(asked)
        return tuple(self._ends[name] for name in self._waits)

    def _start(self, at: int) -> None:
        """In a copy of this thread's context: it knows the failpoints and the display of the command."""
        stoppable, here = Stoppable(), copy_context()
        thread = threading.Thread(target=lambda: here.run(self._serve, stoppable), name=f"twice-task-{at}", daemon=True)
        self._stoppables.append(stoppable)
        self._threads.append(thread)
        thread.start()

    def _begin(self) -> None:
        """Hand out what waits for nothing any more; what waits for a failed task ends here."""
        while ready := self._left.get_ready():
            for name in ready:
                broken = stopped_by(self._waits[name], self._ends)
                if broken is None:
                    self._todo.put(name)
                else:
                    self._end(TaskEnd(name, waits_for=broken))

    def _end(self, end: TaskEnd) -> None:
        self._ends[end.task] = end
        self._left.done(end.task)
        self._report(end)

    def _take(self) -> None:
        """What the threads have ended since. Raises what was no end of a task: it ends the chain."""
        self._news.clear()
        while True:
            try:
                news = self._ended.get_nowait()
            except Empty:
                return
            if isinstance(news, BaseException):
                raise news
            self._end(news)
            self._begin()

    def _let_go(self) -> None:
        for _ in self._threads:
            self._todo.put(None)

    def _serve(self, stoppable: Stoppable) -> None:
        """A thread's work, until it is let go."""
        try:
            with self._context.engine.ending_jobs() as end_jobs, stoppable.current(end_jobs):
                while (name := self._todo.get()) is not None:
                    if not stoppable.asked:
                        self._work_on(name)
                    self._context.progress.ends()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._tell(error)

    def _work_on(self, name: str) -> None:
        task = self._context.project.tasks[name]
        try:
            self._tell(end_of(task, self._run, self._tell_part))
        except Interrupted as interrupt:
            self._interrupted[name] = interrupt.error
            self._tell(interrupt)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._tell(error)

    def _tell_part(self, end: TaskEnd) -> None:
        """What an interrupted task had published by then. It is reported, and is no end of the task."""
        self._ends[end.task] = end

    def _tell(self, news: TaskEnd | BaseException) -> None:
        self._ended.put(news)
        self._news.set()

    def _end_early(self, asked: BaseException) -> NoReturn:
        """Ask every thread to stop, and leave when all have. Asked again meanwhile, leave at once: what is not ended
        then ends with the process."""
        try:
            self._let_go()
            names = ", ".join(name for name in self._waits if name not in self._ends)
            self._context.progress.begins("stopping", names)
            while left := [each for each in zip(self._threads, self._stoppables, strict=True) if each[0].is_alive()]:
                for thread, stoppable in left:
                    stoppable.ask()
                    thread.join(POLL / len(left))
            self._report_left()
        except KeyboardInterrupt as again:
            raise_interrupt(asked if isinstance(asked, KeyboardInterrupt) else again, self._given_up(), again)
        if isinstance(asked, KeyboardInterrupt):
            raise_interrupt(asked, self._as_error(), asked)
        raise asked

    def _report_left(self) -> None:
        with uninterrupted():
            for end in [self._ends[name] for name in self._waits if name in self._interrupted and name in self._ends]:
                self._report(end)
            while not self._ended.empty():
                news = self._ended.get_nowait()
                if isinstance(news, TaskEnd):
                    self._ends[news.task] = news
                    self._report(news)

    def _as_error(self) -> TwiceError:
        """What the interrupted tasks say together."""
        again = "Run it again: it will look first."
        match [self._interrupted[name] for name in self._waits if name in self._interrupted]:
            case []:
                return RunError("interrupted between two attempts", fix=again)
            case [only]:
                return only
            case several:
                now = " ".join(f"{each.where}: {each.now}" for each in several)
                return RunError(f"{len(several)} tasks were interrupted", now=now, fix=again)

    def _given_up(self) -> TwiceError:
        running = [name for name in self._waits if name not in self._ends]
        return RunError(
            f"interrupted again, before these had ended: {', '.join(running)}",
            now="Each of their tables is whole; whether the last publish is in it was not waited for.",
            fix="Run it again: it will look first.",
        )
