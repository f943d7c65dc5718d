"""A ledger on a full disk: really full, a small file system in a mount namespace of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.processes.command import ROOT, command

from twice.core.failure.failpoints import Point


def test_when_the_intent_cannot_be_recorded_nothing_is_published_and_with_space_again_the_next_run_converges(
    tmp_path: Path,
) -> None:
    mount = f"mount -t tmpfs -o size=2m none {tmp_path}"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "sh", "-c", mount]).returncode != 0:
        pytest.skip("this machine lets nobody mount a small file system (unshare -rm)")
    filled = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$0" "$@"', *command("full_disk", tmp_path)]
    done = subprocess.run(filled, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    reported = {found["point"]: found for found in json.loads(done.stdout)}
    order = [point.value for point in Point]
    assert list(reported) == order
    for point in order:
        found = reported[point]
        landed = order.index(point) >= order.index("publishing")
        assert found["landed"] == landed, found
        if point == "after_finish":
            # Everything is recorded; only tidying up is left, and it finds nothing to do.
            assert (found["error"], found["first"]) == (None, "published")
        else:
            assert "the ledger's disk is full" in found["error"], found
            assert "Free some space, then run again: it will look first." in found["error"]
        assert found["second"] == ("already published" if landed else "published"), found
        assert (found["rows"], found["generation"]) == (1, 1), found
