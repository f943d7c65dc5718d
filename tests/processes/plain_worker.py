"""A worker without a JVM: plain rows, a PostgreSQL target, any ledger.
`python -m tests.processes.plain_worker LEDGER TARGET LEASE`.

Commands and answers are those of worker.py; a run may say which `code` it pretends to be.
"""

from __future__ import annotations

import json
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.processes.reporting import pausing, report

from twice import Daily, replace, task
from twice.core.ports import Column
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import assemble
from twice.core.results.run import RunRequest
from twice.engine.plain import PlainEngine
from twice.errors import TwiceError
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.holder import this_process
from twice.runtime.run.run_task import run_task
from twice.targets.memory.rows import Rows
from twice.targets.postgres.frames.plain import PlainFrames
from twice.targets.postgres.server.server import Server
from twice.targets.postgres.target import PostgresTarget

COLUMNS = (Column("day", "date"), Column("code", "string"))
SCOPE = Daily("day", start="2026-01-01")


def main() -> None:
    ledger_url, target_url, lease = sys.argv[1:]
    target = PostgresTarget(Server("proof", target_url), PlainFrames())
    ledger = Ledger.open(ledger_url)
    options = {"code": "v1"}

    @task("public.revenue", scope=SCOPE, inputs={}, write=replace(), name="revenue")
    def revenue(run: Any) -> Rows:
        return Rows(COLUMNS, ((date.fromisoformat(run.slice.label), options["code"]),))

    context = RunContext(
        project=assemble("proof", [revenue]),
        ledger=ledger,
        engine=PlainEngine(),
        target_of=lambda table, session: target,
        code_hash=lambda declared: options["code"],
        clock=SYSTEM_CLOCK,
        holder=this_process(),
        root=Path(),
        lease=timedelta(seconds=float(lease)),
    )
    report(ready=True)
    for line in sys.stdin:
        command = json.loads(line)
        options["code"] = command.get("code", "v1")
        wait = None if command.get("wait") is None else timedelta(seconds=command["wait"])
        ends: list[dict[str, Any]] = []
        with pausing(command.get("pause")):
            for day in command["dates"]:
                try:
                    result = run_task(
                        context, revenue, (SCOPE.slice_of(day),), RunRequest(command.get("kind", "run"), wait)
                    )
                    end = {"outcome": result.outcome.value, "why": result.why, "attempt": result.attempt, "exit": 0}
                except TwiceError as error:
                    end = {"error": str(error), "code": error.code, "exit": error.exit_code}
                ends.append(end)
        report(ends=ends)
    ledger.close()


if __name__ == "__main__":
    main()
