"""How a backfill's progress is shown: in a few lines on a terminal, one line per batch elsewhere, JSON for programs."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any

from twice.cli.display import duration
from twice.cli.hints import current_hints
from twice.cli.options import SCHEMA_VERSION, plain
from twice.cli.terminal import Screen, Symbol, say, wide
from twice.core.backfill.result import BackfillRecord
from twice.core.hints import Hints
from twice.core.results.summary import counted

if TYPE_CHECKING:
    from twice.runtime.backfill.worker import Event, Stop


class Lines:
    """One line per batch: stable text, whatever reads it."""

    def __init__(self, record: BackfillRecord) -> None:
        self._done, self._total = record.done, record.total

    def __call__(self, event: Event) -> None:
        if event.kind == "done":
            self._done += len(event.claim.slices)
        say(f"{describe(event)} ({self._done}/{self._total})")
        sys.stdout.flush()


class JsonLines:
    """One JSON object per slice that ended, and one for each batch that had to be split."""

    def __init__(self) -> None:
        self._hints = current_hints()  # several threads call it, and hints are this thread's

    def __call__(self, event: Event) -> None:
        claim = event.claim
        common: dict[str, Any] = {
            "event": event.kind,
            "backfill": claim.backfill,
            "task": claim.task,
            "seconds": round(event.seconds, 3),
        }
        if event.kind == "done":
            for end in event.ends:
                print_line({**common, **asdict(end)})
        else:
            assert event.error is not None
            print_line({**common, "labels": list(claim.labels), "error": event.error.details()}, self._hints)


class Live:
    """The lines above what is being done: done, rows per second, time left, workers, failures; and the last batch. All
    of it is read from the ledger, once a second, so other workers' slices show too. `before` is the backfill as it was
    found; `look` gives it as it is, and its workers."""

    def __init__(
        self,
        before: BackfillRecord,
        look: Callable[[], tuple[BackfillRecord, int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._clock = look, clock
        self._known, self._began, self._looked = (before, 0), clock(), float("-inf")
        self._done, self._rows = before.done, before.rows
        self._last: Event | None = None

    def __call__(self, event: Event) -> None:
        self._last = event
        self._looked = float("-inf")

    def lines(self, screen: Screen) -> list[str]:
        """Two or three, each as long as the screen is wide at most."""
        now = self._clock()
        if now - self._looked >= 1:
            self._looked = now
            with suppress(Exception):  # what was known is shown until the ledger answers again
                self._known = self._look()
        record, workers = self._known
        room, took = (screen.width or 80) - 1, now - self._began
        made = record.done - self._done
        parts = [f"{record.done:,} of {counted(record.total, 'slice')}"]
        parts += [f"{counted(round((record.rows - self._rows) / took), 'row')}/s"] if made and took else []
        parts += [f"{duration(took / made * record.open)} left"] if made else []
        parts += [counted(workers, "worker"), f"{record.failed:,} failed"]
        figures = screen.cut_end(", ".join(parts), room)
        title = screen.cut(f"backfill {record.name}: {record.state.value}", room - 9)
        clock = duration(took)
        lines = [f"{title}{' ' * (room - wide(title) - len(clock))}{screen.paint(clock, 'dim')}"]
        lines.append(f"{_bar(screen, record, room - wide(figures) - 2)}{figures}")
        return lines if self._last is None else [*lines, _shown(screen, self._last, room)]


def _bar(screen: Screen, record: BackfillRecord, room: int) -> str:
    """How much is done, where there is room for it."""
    length = min(room, 24)
    if length < 6 or not record.total:
        return ""
    done = length * record.done // record.total
    full, rest = ("━", "─") if screen.letters else ("=", "-")
    return f"{screen.paint(full * done, 'green')}{screen.paint(rest * (length - done), 'dim')}  "


def _shown(screen: Screen, event: Event, room: int) -> str:
    mark = Symbol.DONE if event.kind == "done" else Symbol.FAILED if event.kind == "failed" else Symbol.NOTICE
    return screen.marked(mark, screen.cut_end(" ".join(describe(event).split()), room - 2))


def describe(event: Event) -> str:
    labels = event.claim.labels
    where = f"{event.claim.task}[{labels[0]}]" if len(labels) == 1 else f"{event.claim.task}[{labels[0]}..{labels[-1]}]"
    if event.kind == "done":
        rows = sum(end.rows or 0 for end in event.ends)
        outcomes = ", ".join(dict.fromkeys(end.outcome for end in event.ends))
        return f"{where}: {outcomes}, {counted(rows, 'row')}, {event.seconds:.1f} s"
    assert event.error is not None
    if event.kind == "taken over":
        return f"{where}: another worker has taken it over ({event.error.what})"
    if event.kind == "split":
        return f"{where}: failed, split in two to find out where: {event.error.what}"
    return f"{where}: FAILED: {event.error.what}"


def print_line(body: dict[str, Any], hints: Hints | None = None) -> None:
    completed = (hints or current_hints()).in_data(body)
    print(json.dumps({"schema_version": SCHEMA_VERSION, **completed}, default=plain), flush=True)


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """Ctrl-C once: the batch in hand is finished. Twice: it is stopped, and the next worker looks what landed."""

    def interrupted(number: int, frame: FrameType | None) -> None:
        if stop.asked.is_set():
            if callable(before):
                before(number, frame)
            raise KeyboardInterrupt
        stop.asked.set()
        say("finishing the batches that are running; press Ctrl-C again to stop at once", stream=sys.stderr)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
