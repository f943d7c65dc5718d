"""What a process of a proof may do: tried by real processes, as the system lets them and where it offers nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.file_lock import nobody_holds

from twice.core.results.proof import SideEffect, Trial, TrialResult
from twice.errors import UserCodeError
from twice.proof.enclosure import hook
from twice.proof.enclosure.enclosure import (
    Enclosure,
    command,
    environment,
    only_findings,
    unblocked,
    untouched,
    with_findings,
)

OPEN = {"network": False, "files": False, "sockets": False, "processes": False}
SHUT = dict.fromkeys(OPEN, True)


class Folders:
    """A user's folder with a file, and a scratch folder that a proof may write."""

    def __init__(self, folder: Path) -> None:
        self.home, self.scratch = folder / "home", folder / "scratch"
        self.home.mkdir()
        self.scratch.mkdir()
        (self.home / "mine.txt").write_text("mine")

    def run(self, text: str, *, enclosed: bool = False, ends: int = 0) -> str:
        """What a program prints that is a proof's process: enclosed as the system lets it, or only watched. `ends`: how
        it ends."""
        program = self.home / "program.py"
        program.write_text(textwrap.dedent(text))
        reported = {hook.VARIABLE: json.dumps({"scratch": str(self.scratch), "root": str(self.home), **OPEN})}
        words = [sys.executable, str(program), str(self.home), str(self.scratch)]
        done = subprocess.run(
            command(self.scratch, self.home, words) if enclosed else words,
            env={**environment(self.scratch, os.environ), **({} if enclosed else reported)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            start_new_session=True,
        )
        assert done.returncode == ends, done.stderr
        return done.stdout

    def found(self) -> list[tuple[str, str, str]]:
        guard = hook.Guard(str(self.scratch), str(self.home))
        return [(one.kind, one.what, one.where) for one in Enclosure(guard).found()]

    def left(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.home.iterdir() if path.name != "program.py"}


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


TRIES = """
import json, os, socket, sys
from contextlib import suppress
home, scratch = sys.argv[1:]
def works(step):
    try:
        step()
    except OSError:
        return False
    return True
def write():
    # not Python's open(): what a library in C would do
    import ctypes
    libc = ctypes.CDLL(None)
    if libc.creat((home + "/theirs").encode(), 0o600) < 0:
        raise OSError
def dial():
    import ctypes, struct
    libc = ctypes.CDLL(None)
    made = libc.socket(2, 1, 0)
    address = struct.pack("=H", 2) + struct.pack("!H", {port}) + bytes([127, 0, 0, 1]) + bytes(8)
    if libc.connect(made, address, 16) != 0:
        raise OSError
def pair():
    import ctypes
    if ctypes.CDLL(None).socket(1, 1, 0) < 0:
        raise OSError
def signal():
    import ctypes
    if ctypes.CDLL(None).kill({pid}, 0) != 0:
        raise OSError
works(lambda: open(scratch + "/mine", "w").close()) or sys.exit("the scratch folder must be writable")
with socket.create_server(("127.0.0.1", 0)) as own:
    pass
reported = json.loads(os.environ["TWICE_PROOF"])
true = {"files": not works(write), "network": not works(dial), "sockets": not works(pair)}
print(json.dumps([reported, {**true, "processes": not works(signal)}]))
"""


def tries(port: int) -> str:
    return TRIES.replace("{port}", str(port)).replace("{pid}", str(os.getpid()))


def test_what_the_enclosure_says_it_blocks_is_blocked_for_code_that_python_does_not_see(
    folders: Folders, receiver: socket.socket
) -> None:
    port = receiver.getsockname()[1]
    reported, true = json.loads(folders.run(tries(port), enclosed=True))
    assert {name: reported[name] for name in OPEN} == true
    if true["files"]:
        assert "theirs" not in folders.left()
    if true["network"]:
        with pytest.raises(BlockingIOError):
            receiver.accept()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may surely do it")
def test_root_on_linux_gets_the_whole_enclosure_and_nothing_is_left_unblocked(folders: Folders) -> None:
    reported, _ = json.loads(folders.run(tries(9), enclosed=True))
    assert {name: reported[name] for name in SHUT} == SHUT
    assert unblocked(hook.Guard("/x", "/y", **SHUT)) == ()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may surely do it")
def test_a_unix_domain_socket_is_refused_with_its_line_and_an_event_loop_is_not(folders: Folders) -> None:
    folders.run(
        """
        import asyncio, socket
        asyncio.run(asyncio.sleep(0))
        try:
            socket.socket(socket.AF_UNIX).connect("/run/docker.sock")
        except ConnectionError:
            pass
        """,
        enclosed=True,
    )
    assert folders.found() == [("call", "a unix-domain socket", "program.py:5")]


def test_without_an_enclosure_calls_are_refused_in_every_thread_and_named_with_their_line(
    folders: Folders, receiver: socket.socket
) -> None:
    port = receiver.getsockname()[1]
    folders.run(
        f"""
        import socket, threading, urllib.request
        from contextlib import suppress
        def call():
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", {port}))
        call()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        def asked():
            with suppress(OSError):
                urllib.request.urlopen("http://name.example/")
        asked()
        with suppress(OSError):
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port}))
        with suppress(OSError):
            socket.socket(socket.AF_UNIX).connect("/nowhere/.s.PGSQL.5432")
        """
    )
    assert folders.found() == [
        ("call", f"127.0.0.1:{port}", "program.py:6"),
        ("call", "name.example:80", "program.py:13"),
        ("call", f"127.0.0.1:{port}", "program.py:16"),
        ("call", "the socket '/nowhere/.s.PGSQL.5432'", "program.py:18"),
    ]
    with pytest.raises(BlockingIOError):
        receiver.accept()


def test_without_an_enclosure_every_way_to_change_a_file_is_refused_and_the_scratch_folder_is_free(
    folders: Folders,
) -> None:
    folders.run(
        """
        import os, shutil, sys
        from contextlib import suppress
        from pathlib import Path
        home, scratch = map(Path, sys.argv[1:])
        (scratch / "link").symlink_to(home / "mine.txt")
        for step in (
            lambda: (home / "mine.txt").write_text("theirs"),
            lambda: (scratch / "link").write_text("theirs"),
            lambda: os.open(home / "new", os.O_CREAT | os.O_WRONLY),
            lambda: (home / "mine.txt").unlink(),
            lambda: (home / "mine.txt").rename(scratch / "taken"),
            lambda: (home / "folder").mkdir(),
            lambda: os.truncate(home / "mine.txt", 0),
            lambda: os.chmod(home / "mine.txt", 0),
            lambda: os.link(home / "mine.txt", home / "other"),
            lambda: shutil.rmtree(home),
        ):
            try:
                step()
            except PermissionError as error:
                assert "a proof allows no side effects" in str(error)
            else:
                sys.exit("not refused")
        (scratch / "deep" / "er").mkdir(parents=True)
        (scratch / "deep" / "note").write_text("x")
        shutil.rmtree(scratch / "deep")
        home.mkdir(exist_ok=True)
        with open(os.devnull, "w") as nowhere:
            nowhere.write("x")
        """
    )
    assert folders.left() == {"mine.txt": "mine"}
    assert {what for _, what, _ in folders.found()} == {
        *(str(folders.home / name) for name in ("mine.txt", "new", "folder", "other")),
    }


def test_without_an_enclosure_another_program_is_not_started_since_nobody_would_see_it(folders: Folders) -> None:
    folders.run(
        """
        import os, subprocess, sys
        from contextlib import suppress
        new = sys.argv[1] + "/new"
        for step in (lambda: subprocess.run(["touch", new]), lambda: os.system(f"touch {new}er")):
            with suppress(PermissionError):
                step()
        """
    )
    tried = [("process", f"touch {folders.home}/{name}") for name in ("new", "newer")]
    assert [(kind, what) for kind, what, _ in folders.found()] == tried
    assert folders.left() == {"mine.txt": "mine"}


SIGNALS = """
    import os, signal, subprocess, sys
    own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    os.kill(own.pid, 0)
    own.terminate()
    assert own.wait() == -signal.SIGTERM
    os.kill({pid}, 0) if {seen} else None
    for step in (
        lambda: os.kill({pid}, signal.SIGTERM),
        lambda: os.killpg({pid}, signal.SIGTERM),
    ):
        try:
            step()
        except PermissionError as error:
            assert "a proof signals no process of yours" in str(error), error
        else:
            sys.exit("not refused")
"""


@pytest.mark.parametrize("enclosed", [False, True])
def test_a_signal_to_a_process_of_the_users_is_refused_and_named_and_one_of_its_own_is_not(
    folders: Folders, enclosed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is only watched starts no other program, unless it is twice or Spark that does: here it must
    monkeypatch.setattr(sys.modules[__name__], "OPEN", {**SHUT, "processes": False})
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as theirs:
        folders.run(SIGNALS.replace("{pid}", str(theirs.pid)).replace("{seen}", str(not enclosed)), enclosed=enclosed)
        assert theirs.poll() is None
        theirs.kill()
    assert folders.found() == [
        ("signal", f"SIGTERM to process {theirs.pid}", "program.py:9"),
        ("signal", f"SIGTERM to the processes of group {theirs.pid}", "program.py:10"),
    ]


def test_a_signal_to_every_process_is_refused_whatever_the_system_keeps_in(tmp_path: Path) -> None:
    """Asked of the hook itself: a process that really sends it must not be started by a test."""
    for each in (OPEN, SHUT):
        with pytest.raises(hook.RefusedSignal, match="SIGTERM to every process"):
            hook.check_event(hook.Guard(str(tmp_path), "/y", **each), "os.kill", (-1, signal.SIGTERM))


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15),
        ("import os; os.abort()", -6),
    ],
)
def test_an_enclosed_process_ends_for_whoever_waits_as_it_ended_inside(folders: Folders, text: str, ends: int) -> None:
    folders.run(text, enclosed=True, ends=ends)


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, 3), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_a_signal_to_an_enclosed_process_reaches_it_and_nothing_of_it_is_left(
    folders: Folders, number: signal.Signals, ends: int
) -> None:
    """Not even a child that went off into a session of its own; where the system gives processes a namespace."""
    program = folders.home / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import fcntl, json, os, subprocess, sys, time
            held = open(sys.argv[1] + "/held", "w")
            fcntl.flock(held, fcntl.LOCK_EX)
            if json.loads(os.environ["TWICE_PROOF"])["processes"]:
                wait = [sys.executable, "-c", "import time; time.sleep(600)"]
                subprocess.Popen(wait, start_new_session=True, pass_fds=[held.fileno()])
            try:
                print("begun", flush=True)
                time.sleep(600)
            except KeyboardInterrupt:
                sys.exit(3)
            """
        )
    )
    words = command(folders.scratch, folders.home, [sys.executable, str(program), str(folders.scratch)])
    env = environment(folders.scratch, os.environ)
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        try:
            process.send_signal(number)
            assert process.wait(20) == ends
        finally:
            process.kill()
    with (folders.scratch / "held").open() as held:
        deadline = time.monotonic() + 30
        while not nobody_holds(held):
            assert time.monotonic() < deadline, "somebody is left"
            time.sleep(0.05)


def test_code_in_a_folder_that_is_called_pyspark_is_the_users_all_the_same(
    folders: Folders, receiver: socket.socket
) -> None:
    (folders.home / "pyspark").mkdir()
    (folders.home / "pyspark" / "mine.py").write_text(
        "import socket\ndef call(port):\n    socket.create_connection(('127.0.0.1', port))\n"
    )
    folders.run(
        f"""
        import runpy, sys
        from contextlib import suppress
        with suppress(OSError):
            runpy.run_path(sys.argv[1] + "/pyspark/mine.py")["call"]({receiver.getsockname()[1]})
        """
    )
    assert [(kind, where) for kind, _, where in folders.found()] == [("call", "pyspark/mine.py:3")]


def test_a_sitecustomize_of_the_users_own_is_run_as_well(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    (folders.home / "sitecustomize.py").write_text("import sys\nsys.twice_test = 'mine'\n")
    monkeypatch.setenv("PYTHONPATH", str(folders.home))
    assert folders.run("import sys\nprint(sys.twice_test)") == "mine\n"


def test_what_could_not_be_blocked_is_reported_each_in_a_line() -> None:
    reported = unblocked(hook.Guard("/x", "/y", **OPEN))
    assert [line.split()[0] for line in reported] == ["connections", "files", "unix-domain", "signals"]
    assert unblocked(hook.Guard("/x", "/y", **{**SHUT, "network": False}))[0].startswith("connections of the JVM")


def test_an_error_says_that_nothing_was_written_only_where_all_was_blocked(tmp_path: Path) -> None:
    def sentence(blocked: dict[str, bool]) -> str:
        (tmp_path / hook.ENCLOSURE).write_text(json.dumps({"scratch": str(tmp_path), "root": "/", **blocked}))
        return untouched(tmp_path)

    assert untouched(tmp_path) == "Nothing was run."
    assert sentence(SHUT) == "Nothing of yours was written."
    assert sentence({**SHUT, "sockets": False, "processes": False}) == (
        "What this system could not block may have been done: unix-domain sockets of the JVM and of libraries in C; "
        "signals to your processes from the JVM, from libraries in C and from programs that the code starts."
    )


CALL = SideEffect("call", "127.0.0.1:9", "a.py:3")
WRITE = SideEffect("file", "/home/x.txt", "a.py:4")


def test_what_was_found_changes_the_first_scenario_though_its_rows_are_the_same() -> None:
    played = [Trial(name, TrialResult.SAME, "run again") for name in ("twice", "crash")]
    first, second = with_findings(played, [CALL, WRITE])
    assert (first.result, second.result) == (TrialResult.CHANGED, TrialResult.SAME)
    assert first.difference is not None
    assert [cause.name for cause in first.difference.causes] == ["effect in the code", "write in the code"]
    assert "a.py:3" in first.difference.causes[0].why and "/home/x.txt" in first.difference.causes[1].why
    assert with_findings(played, ()) == tuple(played)


def test_code_that_came_to_no_end_says_nothing_of_its_rows() -> None:
    first, second = only_findings(["twice", "crash"], [CALL])
    assert (first.result, second.result) == (TrialResult.CHANGED, TrialResult.NOT_APPLICABLE)
    assert second.reason == "the code calls 127.0.0.1:9"


def test_an_error_of_the_system_is_a_finding_only_where_the_system_keeps_things_in(tmp_path: Path) -> None:
    error = UserCodeError("java.io.IOException: /user/x: Read-only file system")
    shut, loose = (Enclosure(hook.Guard(str(tmp_path), "/y", **each)) for each in (SHUT, OPEN))
    assert [one.kind for one in shut.behind(error)] == ["file"]
    assert loose.behind(error) == ()
    outer = UserCodeError("the task's own code raised Py4JJavaError")
    outer.__cause__ = RuntimeError("job aborted")
    outer.__cause__._cause = OSError("/user/x: Read-only file system")  # type: ignore[attr-defined]  # as PySpark does
    assert [one.what for one in shut.behind(outer)] == ["/user/x: Read-only file system"]
    assert shut.behind(UserCodeError("division by zero")) == ()
