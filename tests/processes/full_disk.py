"""A run whose ledger's disk fills up at a point.

    python -m tests.processes.full_disk FOLDER, where FOLDER is a small file system

For each point: run on a fresh ledger, fill the disk there, see how it ends, free the disk, run again. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from twice import Daily, replace, task
from twice.core.failure.failpoints import Point, armed
from twice.core.ports import Column
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import assemble
from twice.core.results.run import RunResult
from twice.engine.plain import PlainEngine
from twice.errors import TwiceError
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.run.run_task import run_task
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

SCOPE = Daily("day", start="2026-01-01")
SLICE = SCOPE.slice_of("2026-06-09")
ROW = (date(2026, 6, 9), 1)


@task("shop.revenue", scope=SCOPE, inputs={}, write=replace(), name="revenue")
def revenue() -> Rows:
    return Rows((Column("day", "date"), Column("revenue", "bigint")), (ROW,))


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


def at(point: Point, folder: Path) -> dict[str, Any]:
    target, filler = MemoryTarget(), folder / "filler"
    context = RunContext(
        project=assemble("p", [revenue]),
        ledger=Ledger.open(f"sqlite:///{folder}/{point.value}.db"),
        engine=PlainEngine(),
        target_of=lambda table, session: target,
        code_hash=lambda declared: "v1",
        clock=SYSTEM_CLOCK,
        holder="the only one",
    )

    def run() -> RunResult:
        return run_task(context, revenue, (SLICE,))

    report: dict[str, Any] = {"point": point.value, "error": None}
    try:
        with armed(lambda passed: fill(filler) if passed is point else None):
            report["first"] = run().outcome.value
    except TwiceError as error:
        report["error"] = str(error)
    app = "twice/p/revenue/2026-06-09"
    report["landed"] = target.published(revenue.target, [app]).generations[app]
    filler.unlink(missing_ok=True)
    for attempt in context.ledger.open_attempts():
        context.ledger.release(attempt.id)  # the process is known to be over; another machine would wait for the lease
    report["second"] = run().outcome.value
    report["rows"] = len(target.read(revenue.target).rows)
    report["generation"] = target.published(revenue.target, [app]).generations[app]
    context.ledger.close()
    for file in folder.glob(f"{point.value}.db*"):
        file.unlink()
    return report


if __name__ == "__main__":
    sys.stdout.write(json.dumps([at(point, Path(sys.argv[1])) for point in Point]))
