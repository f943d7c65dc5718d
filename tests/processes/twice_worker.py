"""`twice worker` in a process of its own, which may be killed whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path


class TwiceWorker:
    """One process with its JVM, in a process group of its own; what it says goes to a file beside the project."""

    def __init__(self, root: Path, backfill: str) -> None:
        self._log = root.parent / f"worker-{uuid.uuid4().hex}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "twice", "worker", "--backfill", backfill, "--project", str(root)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def holds_one_of(self, holders: tuple[str, ...]) -> bool:
        """Whether one of these claims is this process's."""
        return any(f":{self.process.pid}:" in holder for holder in holders)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
