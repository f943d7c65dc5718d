"""How a backfill's progress is told: a live table on a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from twice.cli.options import SCHEMA_VERSION, plain
from twice.core.backfill_result import BackfillRecord

if TYPE_CHECKING:
    from twice.runtime.worker import Event, Stop
    from twice.wiring.backfills import ProjectBackfills


class Teller(Protocol):
    """Threads may tell at once."""

    def __call__(self, event: Event) -> None: ...


class Lines:
    """One line per batch: stable text, whatever reads it."""

    def __init__(self, record: BackfillRecord) -> None:
        self._done, self._total = record.done, record.total

    def __call__(self, event: Event) -> None:
        if event.kind == "done":
            self._done += len(event.claim.slices)
        print(f"{told(event)} ({self._done}/{self._total})", flush=True)


class JsonLines:
    """One JSON object per slice that ended, and one for each batch that had to be split."""

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
            print_line({**common, "labels": list(claim.labels), "error": event.error.details()})


class Live:
    """A table that is drawn again as batches end: done, rows per second, time left, workers, failures."""

    def __init__(self, backfills: ProjectBackfills, record: BackfillRecord) -> None:
        from rich.live import Live as RichLive

        self._backfills, self._name = backfills, record.name
        self._began, self._done, self._rows = time.monotonic(), record.done, record.rows
        self._last = ""
        self._live = RichLive(self._table(record), refresh_per_second=4, redirect_stderr=False)

    def __enter__(self) -> Live:
        self._live.__enter__()
        return self

    def __exit__(self, *trouble: Any) -> None:
        self._live.__exit__(*trouble)

    def __call__(self, event: Event) -> None:
        self._last = told(event)
        self._live.update(self._table(self._backfills.record(self._name)))

    def _table(self, record: BackfillRecord) -> Any:
        from rich.table import Table

        took = time.monotonic() - self._began
        made = record.done - self._done
        table = Table(title=f"backfill {record.name}", caption=self._last)
        for head in ("slices", "rows/s", "time left", "workers", "failed"):
            table.add_column(head, justify="right")
        table.add_row(
            f"{record.done:,}/{record.total:,}",
            f"{(record.rows - self._rows) / took:,.0f}" if made and took else "-",
            duration(took / made * record.open) if made else "-",
            str(len(self._backfills.holders(record.name))),
            str(record.failed),
        )
        return table


def told(event: Event) -> str:
    labels = event.claim.labels
    where = f"{event.claim.task}[{labels[0]}]" if len(labels) == 1 else f"{event.claim.task}[{labels[0]}..{labels[-1]}]"
    if event.kind == "done":
        rows = sum(end.rows or 0 for end in event.ends)
        outcomes = ", ".join(dict.fromkeys(end.outcome for end in event.ends))
        return f"{where}: {outcomes}, {rows:,} rows, {event.seconds:.1f} s"
    assert event.error is not None
    if event.kind == "split":
        return f"{where}: failed, split in two to find out where: {event.error.what}"
    return f"{where}: FAILED: {event.error.what}"


def duration(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def print_line(body: dict[str, Any]) -> None:
    print(json.dumps({"schema_version": SCHEMA_VERSION, **body}, default=plain), flush=True)


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """Ctrl-C once: the batch in hand is finished. Twice: it is stopped, and the next worker looks what landed."""

    def interrupted(_: int, __: FrameType | None) -> None:
        if stop.asked.is_set():
            raise KeyboardInterrupt
        stop.asked.set()
        print("finishing what is in hand; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
