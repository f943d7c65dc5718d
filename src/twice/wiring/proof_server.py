"""The enclosed process that proofs run in: it serves the requests of a `Prover` until nothing more is asked.

What needs Spark is imported in functions: `main` must have set the path first, which is that of the asking process.
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
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from twice.core.results.proof import Proof
from twice.errors import EnvironmentProblem
from twice.proof.enclosure.enclosure import here
from twice.proof.enclosure.hook import from_environment
from twice.wiring.prover import ProveJob, ProveScript, ProveTask, Request

if TYPE_CHECKING:
    from twice.wiring.enclosed import EnclosedProject

_LOOKS_EVERY_S = 1.0


def main(answers: str, asking: str, *paths: str) -> None:
    """Serve until nothing more is asked, or nobody is left to ask."""
    guard = from_environment()
    if guard is None or not guard.processes:  # else its keeper outside looks, and ends the namespace
        threading.Thread(target=_end_after, args=(int(asking),), daemon=True).start()
    sys.path[:] = [*paths]
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # user code that reads its input must not read our requests
    serving = Serving()
    with os.fdopen(int(answers), "wb") as to, suppress(EOFError):
        try:
            while True:
                to.write(_packed(serving, pickle.load(requests)))
                to.flush()
        except KeyboardInterrupt:
            sys.exit(130)  # without a trace: who asked was interrupted, and says so


def _end_after(process: int) -> None:
    """Who asked may be killed, and this process is in a group of its own: it must not go on for nobody."""
    while os.getppid() == process:
        time.sleep(_LOOKS_EVERY_S)
    guard = from_environment()
    if guard is not None:
        shutil.rmtree(guard.scratch, ignore_errors=True)  # but for itself, which is mounted here
    os.killpg(0, signal.SIGKILL)


def _packed(serving: Serving, request: Request) -> bytes:
    try:
        return pickle.dumps(serving.answer(request))
    except Exception as error:  # noqa: BLE001 - sent to whoever asked
        trace = traceback.format_exc()
        try:
            packed = pickle.dumps((error, trace))
            pickle.loads(packed)  # some errors cannot be made again from their arguments
        except Exception:  # noqa: BLE001
            packed = pickle.dumps((EnvironmentProblem(f"the proof ended with {type(error).__name__}: {error}"), trace))
        return packed


class Serving:
    """The enclosed process at work. Its projects stay open: their session is one."""

    def __init__(self) -> None:
        self._enclosure = here()
        self._projects: dict[tuple[Path, str | None], EnclosedProject] = {}

    def answer(self, request: Request) -> Proof:
        match request:
            case ProveTask():
                return self._task(request)
            case ProveJob():
                return self._job(request)
            case ProveScript():
                return self._script(request)

    def _task(self, request: ProveTask) -> Proof:
        from twice.proof.tasks.prove import chosen_scenarios, prove_task
        from twice.wiring.enclosed import EnclosedProject

        chosen_scenarios(request.scenarios)  # before a session is started for nothing
        key = (request.root, request.profile)
        if key not in self._projects:
            self._projects[key] = EnclosedProject.open(request.root, request.profile, self._enclosure)
        opened = self._projects[key]
        opened.copies.update(request.copies)
        return prove_task(opened.proof_setup, opened.project.task(request.task), request.date, request.scenarios)

    def _job(self, request: ProveJob) -> Proof:
        from twice.proof.jobs.job import check_jobs_scenarios, prove_job
        from twice.wiring.enclosed import plain_session

        check_jobs_scenarios(request.tables, request.scenarios)
        job = pickle.loads(request.job)
        session = plain_session(self._enclosure)
        return prove_job(session, job, request.tables, request.warehouse, request.scenarios, self._enclosure)

    def _script(self, request: ProveScript) -> Proof:
        from twice.proof.jobs.script import Script, prove_script
        from twice.wiring.enclosed import plain_session

        script = Script(request.path, request.arguments, request.tables, request.warehouse)
        return prove_script(plain_session(self._enclosure), script, self._enclosure)


if __name__ == "__main__":
    main(*sys.argv[1:])
