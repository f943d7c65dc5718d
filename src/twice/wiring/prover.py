"""The process that proofs run in, from both sides: started and asked here, served by `main` over there.

It is closed in before it starts (`proof.enclose`): its session, ledger and catalogs are in one scratch folder, which
goes when the prover is closed. One process serves all proofs of a project, so its JVM is started once. Its answers are
proofs and errors, pickled: both ends are this very installation.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from twice.core.proof import Proof
from twice.errors import EnvironmentProblem, UsageError
from twice.proof.enclosure.hook import from_environment

_PATIENCE_S = 10.0
_LOOKS_EVERY_S = 1.0


@dataclass(frozen=True)
class ProveTask:
    root: Path
    profile: str | None
    task: str
    date: str | None
    scenarios: tuple[str, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    """Delta copies of inputs that are no Delta tables, by the name of the table."""


@dataclass(frozen=True)
class ProveJob:
    """`job` is the function as cloudpickle has it: one of a script or a notebook has no module to be found in."""

    job: bytes
    tables: tuple[str, ...]
    warehouse: Path
    scenarios: tuple[str, ...]


@dataclass(frozen=True)
class ProveScript:
    path: Path
    arguments: tuple[str, ...]
    tables: tuple[str, ...]
    warehouse: Path


Request = ProveTask | ProveJob | ProveScript


class Prover:
    """One enclosed process, started at the first request. Close it: its scratch folder is removed then."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: IO[bytes] | None = None

    @cached_property
    def scratch(self) -> Path:
        return Path(os.path.realpath(tempfile.mkdtemp(prefix="twice-proof-")))

    def fresh_folder(self) -> Path:
        """For what this process puts there before it asks."""
        return Path(tempfile.mkdtemp(prefix="inputs-", dir=self.scratch))

    def ask(self, request: Request) -> Proof:
        """The proof, or the error that the other process met. Dying here, the other process ends too."""
        process, answers = self._started()
        try:
            assert process.stdin is not None
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            answer = pickle.load(answers)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            from twice.proof.enclosure.enclosure import untouched

            code, now = process.wait(), untouched(self.scratch)
            self.close()
            raise EnvironmentProblem(
                f"the process of the proof ended with code {code}",
                now=now,
                fix="What it said stands above. A lack of memory is the usual reason: [spark] memory in twice.toml.",
            ) from error
        except BaseException:
            # It may have started others, in groups of their own: it gets the time to end them.
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
            self.close()
            raise
        if isinstance(answer, Proof):
            return answer
        met, told = answer
        raise met from RemoteError(told)

    def close(self) -> None:
        """End the process with its JVM at once, since all it has is scratch, and remove that. A second call does
        nothing."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert self._answers is not None and process.stdin is not None
            self._answers.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        if "scratch" in self.__dict__:
            shutil.rmtree(self.__dict__.pop("scratch"), ignore_errors=True)

    def _started(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._process is not None and self._answers is not None:
            return self._process, self._answers
        from twice.engine.session import jars
        from twice.proof.enclosure.enclosure import command, environment

        jars.ready(jars.cache_folder())  # the other process has no network to fetch them
        reading, writing = os.pipe()
        words = [sys.executable, "-m", __name__, str(writing), str(os.getpid()), *sys.path]
        try:
            self._process = subprocess.Popen(
                command(self.scratch, self._root, words),
                stdin=subprocess.PIPE,
                stdout=2,  # what user code prints must not become part of `-o json`
                env=environment(self.scratch, os.environ),
                pass_fds=(writing,),
                start_new_session=True,  # killed whole: Python, its JVM, and the workers of UDFs
            )
        finally:
            os.close(writing)
        self._answers = os.fdopen(reading, "rb")
        return self._process, self._answers


class RemoteError(Exception):
    """Where an error came from in the other process, for `--debug`."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def pickled_job(job: Callable[..., object]) -> bytes:
    from pyspark import cloudpickle

    try:
        return bytes(cloudpickle.dumps(job))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise UsageError(
            f"the job cannot be sent to a process of its own: {error}",
            now="Nothing was run.",
            fix="A proof runs it apart from this process. Let it take its session from its argument, and make what it "
            "needs (connections, locks) inside.",
        ) from error


def main(answers: str, asking: str, *paths: str) -> None:
    """Over there: serve until nothing more is asked, or nobody is left to ask."""
    guard = from_environment()
    if guard is None or not guard.processes:  # else its keeper outside looks, and ends the namespace
        threading.Thread(target=_end_after, args=(int(asking),), daemon=True).start()
    sys.path[:] = [*paths]
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # user code that reads its input must not read our requests
    serving = Serving()
    with os.fdopen(int(answers), "wb") as to:
        while True:
            try:
                request = pickle.load(requests)
            except EOFError:
                return
            to.write(_packed(serving, request))
            to.flush()


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
    except Exception as error:  # noqa: BLE001 - told to whoever asked
        told = traceback.format_exc()
        try:
            packed = pickle.dumps((error, told))
            pickle.loads(packed)  # some errors cannot be made again from their arguments
        except Exception:  # noqa: BLE001
            packed = pickle.dumps((EnvironmentProblem(f"the proof ended with {type(error).__name__}: {error}"), told))
        return packed


class Serving:
    """The enclosed process at work. Its projects stay open: their session is one."""

    def __init__(self) -> None:
        from twice.proof.enclosure.enclosure import here

        self._enclosure = here()
        self._projects: dict[tuple[Path, str | None], Any] = {}

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
    from twice.wiring.prover import main as serve  # under its own name: what is pickled must be found there

    serve(*sys.argv[1:])
