"""What a killed JVM leaves on disk goes with `twice gc`; what a living process uses stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
