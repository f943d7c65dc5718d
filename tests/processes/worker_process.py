"""A worker process seen from the test: commands out, answers in, every wait bounded."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.processes.command import ROOT, command

WORKER = "worker"
PLAIN_WORKER = "plain_worker"
PATIENCE = 200.0


class Worker:
    """One worker process; every wait is bounded."""

    def __init__(self, *arguments: Path | str, module: str = WORKER) -> None:
        self.process = subprocess.Popen(
            command(module, *arguments),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def ready(self) -> Worker:
        assert self.receive() == {"ready": True}
        return self

    def send(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the worker is silent"
        line = self.process.stdout.readline()
        assert line, "the worker is gone"
        return json.loads(line)

    def run(self, task: str, *dates: str, **options: Any) -> list[dict[str, Any]]:
        self.send(do="run", task=task, dates=dates, **options)
        ends: list[dict[str, Any]] = self.receive()["ends"]
        return ends

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
