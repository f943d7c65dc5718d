"""The warm process that forks, seen from the test: commands out, answers in."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.processes.command import ROOT, command
from tests.proof.postgres_shop import open_context, run

from twice.core.results.run import Outcome


class Forks:
    """The warm process that forks children; every wait is bounded by the test's own time limit."""

    def __init__(self, url: str, ledger: Path) -> None:
        self.url, self.ledger = url, ledger
        self._process = subprocess.Popen(
            command("postgres_forks", url, ledger), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the warm process is gone"
        return json.loads(line)

    def rerun(self, name: str, index: int) -> Outcome:
        context = open_context(self.url, self.ledger, index + 1)
        try:
            return run(context, name, index).outcome
        finally:
            context.ledger.close()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
