"""How a backfill's progress is shown: a live table on a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any

from twice.cli.hints import current_hints
from twice.cli.options import SCHEMA_VERSION, plain
from twice.core.backfill.result import BackfillRecord
from twice.core.hints import Hints
from twice.core.results.summary import counted

if TYPE_CHECKING:
    from rich.console import Console, Group

    from twice.runtime.backfill.worker import Event, Stop


class Lines:
    """One line per batch: stable text, whatever reads it."""

    def __init__(self, record: BackfillRecord) -> None:
        self._done, self._total = record.done, record.total

    def __call__(self, event: Event) -> None:
        if event.kind == "done":
            self._done += len(event.claim.slices)
        print(f"{describe(event)} ({self._done}/{self._total})", flush=True)


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
    """A table that is drawn again every second: done, rows per second, time left, workers, failures. All of it is
    read from the ledger, so other workers' slices show too. `look` gives the backfill as it is, and its workers."""

    def __init__(
        self,
        look: Callable[[], tuple[BackfillRecord, int]],
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.live import Live as RichLive

        self._look, self._clock = look, clock
        before, _ = look()
        self._began, self._done, self._rows = clock(), before.done, before.rows
        self._last = ""
        self._live = RichLive(get_renderable=self._drawn, console=console, refresh_per_second=1, redirect_stderr=False)

    def __enter__(self) -> Live:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def __call__(self, event: Event) -> None:
        self._last = describe(event)
        self._live.refresh()

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        record, workers = self._look()
        took = self._clock() - self._began
        made = record.done - self._done
        # As text: in markup `revenue[all]` would be a tag.
        table = Table(title=Text(f"backfill {record.name}: {record.state.value}"))
        for head in ("slices", "rows/s", "time left", "workers", "failed"):
            table.add_column(head, justify="right")
        table.add_row(
            f"{record.done:,}/{record.total:,}",
            f"{(record.rows - self._rows) / took:,.0f}" if made and took else "-",
            duration(took / made * record.open) if made else "-",
            str(workers),
            str(record.failed),
        )
        return Group(table, Text(self._last))


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


def duration(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


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
        print("finishing the batches that are running; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
