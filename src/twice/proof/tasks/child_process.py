"""A child process that works in a scratch copy: really killed (SIGKILL, with its JVM) and run again by this process, or
with a clock that is really ahead."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from twice.core.failure.failpoints import Point, armed, kill_at
from twice.core.scope import slice_named
from twice.core.task import TableName, Task
from twice.proof.play import NotApplicable, Observation
from twice.proof.tasks.scratch import ChildRun, ProofSetup, ScratchCopy, enter_copy
from twice.proof.tasks.session import Clean, ProofSession
from twice.proof.tasks.shifted_clock import LATER

POINTS = (Point.IN_STAGE, Point.AFTER_COMMIT)
"""Files are written but not committed; committed but not reported. Each costs a JVM: `crash` takes every step."""
_LIMIT = 600.0
_PINS = "pins.json"


def kill(proof_session: ProofSession, clean: Clean) -> Observation:
    for point in POINTS:
        with proof_session.copy() as copy:
            _run_child(_command(proof_session, copy, point), -signal.SIGKILL)
            copy.clock.pass_an_hour()
            copy.run(proof_session.slices)
            found = proof_session.difference(clean, copy)
            if found is not None:
                return Observation(f"killed at {point.value}, then run again", found)
    return Observation(f"killed at {', '.join(point.value for point in POINTS)}, each time run again")


def shifted(proof_session: ProofSession, clean: Clean) -> Observation:
    """Effects are not compared: they were recorded in the child process."""
    faketime = shutil.which("faketime")
    if faketime is None:
        raise NotApplicable("faketime missing")
    with proof_session.copy() as copy:
        _run_child([faketime, "-f", f"+{LATER.days}d", *_command(proof_session, copy, None)], os.EX_OK)
        return Observation(f"a process whose clock is {LATER.days} days ahead", proof_session.rows_differ(clean, copy))


def carry_out(setup: ProofSetup, task: Task, child: ChildRun) -> None:
    """In the child process: run the task in that scratch copy. Killed, it leaves what a lost machine leaves."""
    pins = {TableName.parse(name): version for name, version in json.loads(_pins(child.folder).read_text()).items()}
    copy = enter_copy(setup, task, child.folder, pins)
    with nullcontext() if child.point is None else armed(kill_at(child.point)):
        copy.run((slice_named(task.scope, child.label),))


def _command(proof_session: ProofSession, copy: ScratchCopy, point: Point | None) -> Sequence[str]:
    if proof_session.setup.child_command is None:
        raise NotApplicable("there is no project on disk that a child process could open")
    _pins(copy.folder).write_text(json.dumps({str(table): version for table, version in proof_session.pins.items()}))
    return proof_session.setup.child_command(
        ChildRun(proof_session.task.name, proof_session.slices[-1].label, copy.folder, point)
    )


def _run_child(command: Sequence[str], expected: int) -> None:
    ended = subprocess.run(
        command, start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT, check=False
    )
    if ended.returncode != expected:
        output = ended.stderr.decode(errors="replace").strip().splitlines()
        raise NotApplicable(f"the child process did not end as planned: {output[-1] if output else ended.returncode}")


def _pins(folder: Path) -> Path:
    return folder / _PINS
