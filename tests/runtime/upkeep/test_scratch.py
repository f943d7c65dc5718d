"""What a killed JVM leaves on disk goes with `twice gc`; what a living process uses stays."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from twice.runtime import holder
from twice.runtime.holder import clear_scratch, scratch_name

_PRINT = "from twice.runtime.holder import scratch_name; print(scratch_name())"


def test_the_scratch_of_a_process_that_ended_goes_and_no_other(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", _PRINT], capture_output=True, text=True, check=True).stdout.strip()
    for name in (ended, scratch_name(), "elsewhere+0a1b2c3d~17~4711", "blockmgr-1"):
        (tmp_path / name / "blockmgr-9").mkdir(parents=True)
        (tmp_path / name / "blockmgr-9" / "shuffle_0").write_bytes(b"x")
    assert clear_scratch(tmp_path) == 1
    assert {each.name for each in tmp_path.iterdir()} == {scratch_name(), "elsewhere+0a1b2c3d~17~4711", "blockmgr-1"}
    assert clear_scratch(tmp_path) == 0
    assert clear_scratch(tmp_path / "missing") == 0


def scratch(folder: Path, name: str) -> Path:
    (folder / name / "blockmgr-9").mkdir(parents=True)
    (folder / name / "blockmgr-9" / "shuffle_0").write_bytes(b"x")
    return folder / name


def of_boot(boot: str, host: str | None = None) -> str:
    """The name that another process had, at another start of the machine."""
    return f"{host or socket.gethostname()}+0a1b2c3d.{boot}~17~4711"


def test_what_this_machine_left_before_it_was_started_again_goes(tmp_path: Path) -> None:
    before = scratch(tmp_path, of_boot("deadbeef"))
    other = scratch(tmp_path, of_boot("deadbeef", "elsewhere"))
    container = scratch(tmp_path, of_boot(str(holder._boot())))
    assert clear_scratch(tmp_path) == 1
    assert (before.exists(), other.exists(), container.exists()) == (False, True, True)
    assert not holder.is_gone(f"{socket.gethostname()}/0a1b2c3d:17:4711"), "a lease is not judged by that"


def test_what_a_container_or_another_machine_left_goes_when_nothing_was_written_there_for_a_month(
    tmp_path: Path,
) -> None:
    old, used = scratch(tmp_path, of_boot("deadbeef", "pod-1")), scratch(tmp_path, of_boot("deadbeef", "pod-2"))
    mine = scratch(tmp_path, scratch_name())
    month = time.time() - holder.LEFT_AFTER.total_seconds() - 60
    for each in (*old.rglob("*"), old, used, mine, *mine.rglob("*")):
        os.utime(each, (month, month))
    assert clear_scratch(tmp_path) == 1
    assert (old.exists(), used.exists(), mine.exists()) == (False, True, True)
