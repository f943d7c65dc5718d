"""A warm process that runs tasks on command, and can be paused, stopped and killed by a test.

It reads one JSON command per line and answers with one JSON line each:
    {"do": "run", "task": …, "dates": […], "wait": seconds, "pause": failpoint, "heartbeat": bool}
At a pause it says {"paused": failpoint} and waits for any line. `stop_jvm` stops its own JVM at that point instead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServerConnection
from tests.processes.reporting import pausing, report

from twice.config import load
from twice.core.results.run import RunRequest
from twice.errors import TwiceError
from twice.project import run as runs
from twice.runtime.run.lease import Heartbeat
from twice.targets.delta.log.transaction import Transaction
from twice.wiring.open_project import OpenProject


@contextmanager
def stopping_jvm(opened: OpenProject) -> Iterator[None]:
    """Stop the JVM just before the commit is sent to it, and leave a child that keeps it alive when we are killed."""
    gateway = opened.spark.sparkContext._gateway
    operation = Transaction._operation

    def stopped(self: Transaction, *described: Any) -> Any:
        made = operation(self, *described)  # the last thing that needs an answer before the commit itself
        child = os.fork()
        if child == 0:
            time.sleep(300)  # holds the pipe whose end would make the JVM exit
            os._exit(0)
        os.kill(gateway.proc.pid, signal.SIGSTOP)
        seen.update(jvm=gateway.proc.pid, child=child, port=gateway.gateway_parameters.port)
        return made

    def sent(self: ClientServerConnection, command: str) -> Any:
        if seen and "\ncommit\n" in command:
            report(**seen, size=len(command.encode()))
        return send(self, command)

    seen: dict[str, int] = {}
    send = ClientServerConnection.send_command
    Transaction._operation = stopped  # type: ignore[assignment, method-assign]
    ClientServerConnection.send_command = sent
    try:
        yield
    finally:
        Transaction._operation = operation  # type: ignore[method-assign]
        ClientServerConnection.send_command = send


def run(opened: OpenProject, command: dict[str, Any]) -> None:
    if not command.get("heartbeat", True):
        Heartbeat._beat = lambda self: None  # type: ignore[method-assign]
    wait = None if command.get("wait") is None else timedelta(seconds=command["wait"])
    ends = []
    with stopping_jvm(opened) if command.get("stop_jvm") else pausing(command.get("pause")):
        for date in command["dates"]:
            slices = runs.slices(opened, command["task"], date)
            try:
                (result,) = runs.run(opened, command["task"], slices, RunRequest(command.get("kind", "run"), wait))
                ends.append({"outcome": result.outcome.value, "why": result.why, "attempt": result.attempt, "exit": 0})
            except TwiceError as error:
                ends.append({"error": str(error), "exit": error.exit_code})
    report(ends=ends)


def main() -> None:
    opened = OpenProject(load(Path(sys.argv[1]), None))
    opened.context.engine.fresh().range(1).count()
    report(ready=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "run":
            run(opened, command)
        else:
            break
    opened.close()


if __name__ == "__main__":
    main()
