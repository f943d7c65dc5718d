"""The process that proofs run in, asked for what needs no Spark: how it reports errors, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.endings import signals_raise
from tests.file_lock import nobody_holds

from twice.errors import DeclarationError, EnvironmentProblem, UsageError
from twice.proof.process.prover import RemoteError, pickled_job
from twice.proof.process.request import ProveTask
from twice.wiring.open_project import prover_of

pytestmark = pytest.mark.timeout(300)

SLEEPING = """
import fcntl, pathlib, tempfile, time
begun = open(pathlib.Path(tempfile.gettempdir(), "begun"), "w")
fcntl.flock(begun, fcntl.LOCK_EX)  # for as long as it lives: its number is another one in there
begun.write("yes")
begun.flush()
time.sleep(600)
"""


def project(root: Path, text: str) -> ProveTask:
    (root / "pipelines").mkdir(parents=True)
    (root / "pipelines" / "tasks.py").write_text(text)
    (root / "twice.toml").write_text('project = "p"\n')
    return ProveTask(root, None, "orders", "2026-06-09", ("twice",))


def test_errors_over_there_are_raised_here_as_themselves_and_a_dead_process_is_reported_with_its_code(
    tmp_path: Path,
) -> None:
    writing, dying = tmp_path / "writing", tmp_path / "dying"
    asked = project(writing, "import os\nopen('left.txt', 'w')\n")
    last = project(dying, "import os\nos._exit(7)\n")
    with closing(prover_of(writing)) as prover:
        with pytest.raises(UsageError, match="there is no scenario 'nope'"):
            prover.ask(ProveTask(writing, None, "orders", None, ("nope",)))
        with pytest.raises(DeclarationError, match="refused .*left.txt, at pipelines/tasks.py:2") as caught:
            prover.ask(asked)
        assert isinstance(caught.value.__cause__, RemoteError)
        assert "Traceback" in str(caught.value.__cause__)
        scratch = prover.scratch
        with pytest.raises(EnvironmentProblem, match="ended with code 7. Nothing of yours was written"):
            prover.ask(last)
        assert not scratch.exists()


def test_a_process_that_died_where_something_could_not_be_blocked_does_not_say_that_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWICE_PROOF_WITHOUT", "files,sockets")
    asked = project(tmp_path, "import os\nos._exit(7)\n")
    with closing(prover_of(tmp_path)) as prover, pytest.raises(EnvironmentProblem) as caught:
        prover.ask(asked)
    assert "Nothing of yours was written" not in caught.value.now
    assert caught.value.now.startswith("What this system could not block may have been done: ")
    assert "files written by libraries in C" in caught.value.now


def test_ctrl_c_ends_the_process_and_removes_its_scratch_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = project(tmp_path, SLEEPING)
    with closing(prover_of(tmp_path)) as prover:
        begun = prover.scratch / "tmp" / "begun"
        when(lambda: begun.exists() and begun.read_text() != "", lambda: os.kill(os.getpid(), signal.SIGINT))
        with signals_raise(), pytest.raises(KeyboardInterrupt):
            prover.ask(asked)
        assert not begun.exists()
    assert capfd.readouterr().err == "", "who asked was interrupted, and says so"


ASKING = """
import sys
from pathlib import Path
from twice.proof.process.request import ProveTask
from twice.wiring.open_project import prover_of
prover = prover_of(Path(sys.argv[1]))
print(prover.scratch, flush=True)
prover.ask(ProveTask(Path(sys.argv[1]), None, "orders", None, ("twice",)))
"""


def test_a_proof_whose_asker_was_killed_ends_and_leaves_an_empty_folder(tmp_path: Path) -> None:
    project(tmp_path, SLEEPING)
    command = [sys.executable, "-c", ASKING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        scratch = Path(asking.stdout.readline().strip())
        begun = scratch / "tmp" / "begun"
        until(lambda: begun.exists() and begun.read_text() != "")
        held = begun.open()
        assert not nobody_holds(held)
        asking.kill()
    with held:
        until(lambda: nobody_holds(held))
    until(lambda: not scratch.exists() or not any(scratch.iterdir()))


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def when(happened: Callable[[], bool], then: Callable[[], None]) -> None:
    def wait() -> None:
        while not happened():
            time.sleep(0.05)
        then()

    threading.Thread(target=wait, daemon=True).start()


def test_a_job_that_holds_what_cannot_be_sent_is_refused_before_anything_runs() -> None:
    lock = threading.Lock()

    def job(spark: object, warehouse: Path) -> None:
        lock.acquire()

    with pytest.raises(UsageError, match="cannot be sent to a process of its own.* Nothing was run"):
        pickled_job(job)
