"""Carrying out a backfill for a person or a program: what is shown meanwhile, and how it ended."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from twice.cli.backfill_text import print_end, record_data, result_data
from twice.cli.display import current_display
from twice.cli.options import print_json
from twice.cli.terminal import is_terminal
from twice.core.backfill.result import BackfillRecord, BackfillResult

if TYPE_CHECKING:
    from twice.runtime.backfill.worker import Event, Stop
    from twice.wiring.open_project import OpenProject


class Stream(str, Enum):
    text = "text"
    json = "json"
    jsonl = "jsonl"


@dataclass(frozen=True)
class BackfillEnd:
    """How far a backfill came in this call. `stopped`: a person asked for its end, and something is left."""

    result: BackfillResult
    stopped: bool

    @property
    def code(self) -> int:
        return 130 if self.stopped else 1 if self.result.failed else 0


def work(opened: OpenProject, record: BackfillRecord, parallel: int, output: Stream) -> int:
    """The exit code. As JSON one document."""
    from twice.runtime.backfill.worker import Stop

    worked = carry_out(opened, record, parallel, output, Stop.never())
    if output is Stream.json:
        print_json({"backfill": result_data(worked.result)})
    return worked.code


def carry_out(opened: OpenProject, record: BackfillRecord, parallel: int, output: Stream, stop: Stop) -> BackfillEnd:
    """Until nothing is left or `stop` is set. As text and as lines of JSON it is printed; one document is left to the
    caller."""
    from twice.cli.progress import JsonLines, Lines, Live, interruptible, print_line
    from twice.project import backfill as backfills

    display = current_display()
    backfills.ready(opened, record.name)
    live = Live(record, lambda: backfills.progress(opened, record.name))
    lines = Lines(record) if output is Stream.text else JsonLines() if output is Stream.jsonl else _quiet
    if output is Stream.text and display.on and is_terminal(sys.stdout):
        lines = _quiet

    def report(event: Event) -> None:
        live(event)
        lines(event)

    with interruptible(stop), display.headed(live.lines):
        after = backfills.work(opened, record.name, report, stop, parallel)
    result = backfills.show(opened, record.name)
    if output is Stream.jsonl:
        print_line({"event": "end", **record_data(after, len(backfills.holders(opened, record.name)))})
    elif output is Stream.text:
        print_end(result)
    return BackfillEnd(result, stop() and not result.complete)


def _quiet(_: object) -> None:
    """All is printed at the end."""
