"""A backfill of three slices on plain rows, by the command line's own code.
`python -m tests.processes.interrupted_process LEDGER`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import typer

from twice import Daily, replace, task
from twice.cli import backfill_work
from twice.cli.options import boundary
from twice.core.backfill.plan import BackfillRequest
from twice.core.ports import Column
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import assemble
from twice.engine.plain import PlainEngine
from twice.ledgers.ledger import Ledger
from twice.project import backfill as backfills
from twice.runtime.context import RunContext
from twice.runtime.holder import this_process
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget


@task("shop.revenue", scope=Daily("day", start="2026-01-01"), inputs={}, write=replace(), name="revenue")
def revenue(run: Any) -> Rows:
    if run.slice.label == "2026-01-02":
        sys.stderr.write("in hand\n")
        sys.stderr.flush()
        sys.stdin.readline()
    return Rows((Column("day", "date"),), ((date.fromisoformat(run.slice.label),),))


class Opened:
    """As much of an open project as backfills need, without Spark."""

    def __init__(self, url: str) -> None:
        target = MemoryTarget()
        self.project = assemble("p", [revenue])
        self.ledger = Ledger.open(url)
        self.context = RunContext(
            project=self.project,
            ledger=self.ledger,
            engine=PlainEngine(),
            target_of=lambda table, session: target,
            code_hash=lambda declared: "v1",
            clock=SYSTEM_CLOCK,
            holder=this_process(),
            root=Path(),
            lease=timedelta(seconds=30),
        )

    @contextmanager
    def quickly(self) -> Iterator[None]:
        yield  # nothing is known without the engine


def three_slices() -> int:
    opened = Opened(sys.argv[1])
    asked = BackfillRequest("revenue", "2026-01-01", "2026-01-03", batch="off")
    record, _ = backfills.start(opened, asked, "three")  # type: ignore[arg-type]
    try:
        return backfill_work.work(opened, record, 1, backfill_work.Stream.text)  # type: ignore[arg-type]
    finally:
        opened.ledger.close()


def main() -> int:
    try:
        boundary(three_slices)(debug=False)
    except typer.Exit as end:
        return end.exit_code
    raise AssertionError("a command always ends by its exit code")


if __name__ == "__main__":
    sys.exit(main())
