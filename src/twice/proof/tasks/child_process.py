"""A process of its own in a world: really killed (SIGKILL, with its JVM) and run again by this one, or with a clock
that is really ahead."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from twice.core.failpoints import Point, armed, kill_at
from twice.core.scope import slice_named
from twice.core.task import TableName, Task
from twice.proof.tasks.later import LATER
from twice.proof.tasks.scratch import ChildRun, NotApplicable, ProofSetup, ScratchCopy, enter_copy
from twice.proof.tasks.seen import Seen
from twice.proof.tasks.session import Clean, ProofSession

POINTS = (Point.IN_STAGE, Point.AFTER_COMMIT)
"""Files are written and nobody knows; landed and not reported. Each costs a JVM: `crash` takes every step."""
_LIMIT = 600.0
_PINS = "pins.json"


def kill(proof_session: ProofSession, clean: Clean) -> Seen:
    for point in POINTS:
        with proof_session.copy() as copy:
            _send(_command(proof_session, copy, point), -signal.SIGKILL)
            copy.clock.pass_an_hour()
            copy.run(proof_session.slices)
            found = proof_session.difference(clean, copy)
            if found is not None:
                return Seen(f"killed at {point.value}, then run again", found)
    return Seen(f"killed at {', '.join(point.value for point in POINTS)}, each time run again")


def shifted(proof_session: ProofSession, clean: Clean) -> Seen:
    """What left through effects is not compared: it was written down in the other process."""
    faketime = shutil.which("faketime")
    if faketime is None:
        raise NotApplicable("faketime missing")
    with proof_session.copy() as copy:
        _send([faketime, "-f", f"+{LATER.days}d", *_command(proof_session, copy, None)], os.EX_OK)
        return Seen(f"a process whose clock is {LATER.days} days ahead", proof_session.rows_differ(clean, copy))


def carry_out(setup: ProofSetup, task: Task, child: ChildRun) -> None:
    """In the other process: run the task in that world. Killed, it leaves what a lost machine leaves."""
    pins = {TableName.parse(name): version for name, version in json.loads(_pins(child.folder).read_text()).items()}
    copy = enter_copy(setup, task, child.folder, pins)
    with nullcontext() if child.point is None else armed(kill_at(child.point)):
        copy.run((slice_named(task.scope, child.label),))


def _command(proof_session: ProofSession, copy: ScratchCopy, point: Point | None) -> Sequence[str]:
    if proof_session.setup.sent is None:
        raise NotApplicable("there is no project on disk that another process could open")
    _pins(copy.folder).write_text(json.dumps({str(table): version for table, version in proof_session.pins.items()}))
    return proof_session.setup.sent(
        ChildRun(proof_session.task.name, proof_session.slices[-1].label, copy.folder, point)
    )


def _send(command: Sequence[str], expected: int) -> None:
    ended = subprocess.run(
        command, start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT, check=False
    )
    if ended.returncode != expected:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise NotApplicable(f"the process ended otherwise than planned: {said[-1] if said else ended.returncode}")


def _pins(folder: Path) -> Path:
    return folder / _PINS
