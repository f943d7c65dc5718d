"""The enclosed process at its pipes: it serves the requests of a `Prover` until nothing more is asked.

Only what needs no Spark is imported here: `serve` sets the path first, which is that of the asking process.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from twice.core.ports import Progress, unfailing
from twice.core.results.proof import Proof
from twice.errors import EnvironmentProblem
from twice.proof.enclosure.hook import from_environment
from twice.proof.process.request import News, Request

Answer = Callable[[Request, Progress], Proof]

_LOOKS_EVERY_S = 1.0


def serve(answer: Answer, answers: int, asking: int, paths: Sequence[str]) -> None:
    """Until nothing more is asked, or nobody is left to ask. `answers` is the pipe they go to, `asking` the process
    that asks, `paths` what it imports from."""
    guard = from_environment()
    if guard is None or not guard.processes:  # else its keeper outside looks, and ends the namespace
        threading.Thread(target=_end_after, args=(asking,), daemon=True).start()
    sys.path[:] = [*paths]
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # user code that reads its input must not read our requests
    with os.fdopen(answers, "wb") as to, suppress(EOFError):
        progress = unfailing(_Sent(to))
        try:
            while True:
                to.write(_packed(answer, pickle.load(requests), progress))
                to.flush()
        except KeyboardInterrupt:
            sys.exit(130)  # without a trace: who asked was interrupted, and says so


class _Sent:
    """Progress goes to whoever asked, before the answer."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to, self._lock = to, threading.Lock()

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        self._send(News("begins", (step, where, detail)))

    def learns(self, fact: str) -> None:
        self._send(News("learns", (fact,)))

    def counts(self, at: int, total: int, noun: str) -> None:
        self._send(News("counts", (at, total, noun)))

    def ends(self) -> None:
        self._send(News("ends"))

    def _send(self, news: News) -> None:
        packed = pickle.dumps(news)
        with self._lock:
            self._to.write(packed)
            self._to.flush()


def _end_after(process: int) -> None:
    """Who asked may be killed, and this process is in a group of its own: it must not go on for nobody."""
    while os.getppid() == process:
        time.sleep(_LOOKS_EVERY_S)
    guard = from_environment()
    if guard is not None:
        shutil.rmtree(guard.scratch, ignore_errors=True)  # but for itself, which is mounted here
    os.killpg(0, signal.SIGKILL)


def _packed(answer: Answer, request: Request, progress: Progress) -> bytes:
    try:
        return pickle.dumps(answer(request, progress))
    except Exception as error:  # noqa: BLE001 - sent to whoever asked
        trace = traceback.format_exc()
        try:
            packed = pickle.dumps((error, trace))
            pickle.loads(packed)  # some errors cannot be made again from their arguments
        except Exception:  # noqa: BLE001
            packed = pickle.dumps((EnvironmentProblem(f"the proof ended with {type(error).__name__}: {error}"), trace))
        return packed
