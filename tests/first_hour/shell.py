"""One bash for all commands of a page: folders, variables and virtual environments last from one to the next.

As in a terminal each command has a process group of its own: a failpoint of twice kills its whole group.
"""

from __future__ import annotations

import os
import subprocess
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

LIMIT = 900
"""Seconds for one command: the longest that a page has is `make demo` after a fresh clone."""

_LOOP = """
exec 2>&1; code=0; set -m
while IFS= read -r -d '' -u "$COMMANDS" command; do
  (exit "$code"); eval "$command" </dev/null
  code=$?; printf '\\n%s %d %s\\n' "$MARK" "$code" "$PWD"
done
"""


@dataclass(frozen=True)
class Printed:
    code: int
    lines: tuple[str, ...]
    folder: Path
    """Where the shell is now."""


class Shell:
    """Close it, or use it in a `with`. Its output is a pipe, so commands print what they print to a file."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        read, self._commands = os.pipe()
        self._mark = f"done-{uuid.uuid4().hex}"
        own = {"COMMANDS": str(read), "MARK": self._mark}
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", _LOOP],
            cwd=folder,
            env={**environment, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(read,),
            start_new_session=True,
        )
        os.close(read)

    def run(self, command: str) -> Printed:
        os.write(self._commands, command.encode() + b"\0")
        lines: list[str] = []
        stopped = threading.Timer(LIMIT, self._process.kill)
        stopped.start()
        try:
            for line in self._process.stdout or ():
                if line.startswith(self._mark):
                    _, code, folder = line.rstrip("\n").split(" ", 2)
                    return Printed(int(code), tuple(lines), Path(folder))
                lines.append(line.rstrip("\n"))
        finally:
            stopped.cancel()
        raise RuntimeError(f"the shell ended, or had no answer within {LIMIT} s: {command}\n" + "\n".join(lines))

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self._commands)
        self._process.wait(30)
        if self._process.stdout:
            self._process.stdout.close()
