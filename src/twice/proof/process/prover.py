"""The process that proofs run in, as this process starts and asks it; `serve` is what runs over there.

It is closed in before it starts (`proof.enclosure`): its session, ledger and catalogs are in one scratch folder, which
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
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import IO

from twice.core.ports import SILENT, Progress
from twice.core.results.proof import Proof
from twice.engine.session import jars
from twice.errors import EnvironmentProblem, UsageError
from twice.proof.enclosure.enclosure import command, environment, untouched
from twice.proof.process.request import News, Request

_PATIENCE_S = 10.0


class Prover:
    """One enclosed process, started at the first request. Close it: its scratch folder is removed then. `server` is
    the main module of that process: it opens projects, which is done above this room."""

    def __init__(self, root: Path, server: str) -> None:
        self._root = root
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: IO[bytes] | None = None

    @cached_property
    def scratch(self) -> Path:
        return Path(os.path.realpath(tempfile.mkdtemp(prefix="twice-proof-")))

    def fresh_folder(self) -> Path:
        """For what this process puts there before it asks."""
        return Path(tempfile.mkdtemp(prefix="inputs-", dir=self.scratch))

    def ask(self, request: Request, progress: Progress = SILENT) -> Proof:
        """The proof, or the error that the other process raised. Dying here, the other process ends too."""
        progress.begins("starting", "process of the proof")
        process, answers = self._started(progress)
        try:
            assert process.stdin is not None
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            while isinstance(answer := pickle.load(answers), News):
                answer.pass_on(progress)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            code, now = process.wait(), untouched(self.scratch)
            self.close()
            raise EnvironmentProblem(
                f"the process of the proof ended with code {code}",
                now=now,
                fix="Its own messages are above. A lack of memory is the usual reason: [spark] memory in twice.toml.",
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
        failure, trace = answer
        raise failure from RemoteError(trace)

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

    def _started(self, progress: Progress) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._process is not None and self._answers is not None:
            return self._process, self._answers
        jars.ready(jars.cache_folder(), progress=progress)  # the other process has no network to fetch them
        reading, writing = os.pipe()
        words = [sys.executable, "-m", self._server, str(writing), str(os.getpid()), *sys.path]
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
