"""The command line, interrupted at a chosen moment of the start of Spark.
`python -m tests.processes.interrupted_start MOMENT SIGNAL [twice's arguments]`. It prints the process id of its JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from twice.__main__ import main
from twice.engine.session import session


def ask(number: int) -> None:
    os.kill(os.getpid(), number)


def before(holder: Any, name: str, do: Callable[[], None]) -> None:
    original = getattr(holder, name)

    def asked(*arguments: Any, **options: Any) -> Any:
        do()
        return original(*arguments, **options)

    setattr(holder, name, asked)


def soon(number: int) -> None:
    """From outside, while the main thread waits for the JVM's answer."""
    threading.Timer(0.05, ask, [number]).start()


MOMENTS: dict[str, Callable[[int], None]] = {
    "before the JVM": lambda number: before(session, "launch_gateway", lambda: ask(number)),
    "the JVM is there": lambda number: before(time, "sleep", once(lambda: ask(number))),
    "twice while it comes": lambda number: before(time, "sleep", lambda: ask(number)),
    "it has answered": lambda number: before(java_gateway, "java_import", once(lambda: ask(number))),
    "its context is made": lambda number: before(SparkContext, "_initialize_context", lambda: soon(number)),
    "its session is made": lambda number: before(SparkSession, "__init__", lambda: soon(number)),
    "it is looked at": lambda number: before(session, "refuse_remote_files", lambda: ask(number)),
}


def once(do: Callable[[], None]) -> Callable[[], None]:
    left = [do]
    return lambda: left.pop()() if left else None


class Shown(subprocess.Popen[Any]):
    def __init__(self, arguments: Any, **options: Any) -> None:
        super().__init__(arguments, **options)
        if "spark-submit" in str(arguments):
            print("jvm", self.pid, flush=True)


if __name__ == "__main__":
    subprocess.Popen = java_gateway.Popen = Shown  # type: ignore[misc, attr-defined, assignment]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the one who starts us made of it
    MOMENTS[sys.argv[1]](signal.Signals[sys.argv[2]])
    sys.argv[1:3] = []
    main()
