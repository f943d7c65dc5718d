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
from twice.proof.tasks.scratch import Errand, Laboratory, NotApplicable, World, enter_world
from twice.proof.tasks.seen import Seen
from twice.proof.tasks.session import Bench, Clean

POINTS = (Point.IN_STAGE, Point.AFTER_COMMIT)
"""Files are written and nobody knows; landed and not reported. Each costs a JVM: `crash` takes every step."""
_LIMIT = 600.0
_PINS = "pins.json"


def kill(bench: Bench, clean: Clean) -> Seen:
    for point in POINTS:
        with bench.world() as world:
            _send(_command(bench, world, point), -signal.SIGKILL)
            world.clock.pass_an_hour()
            world.run(bench.slices)
            found = bench.difference(clean, world)
            if found is not None:
                return Seen(f"killed at {point.value}, then run again", found)
    return Seen(f"killed at {', '.join(point.value for point in POINTS)}, each time run again")


def shifted(bench: Bench, clean: Clean) -> Seen:
    """What left through effects is not compared: it was written down in the other process."""
    faketime = shutil.which("faketime")
    if faketime is None:
        raise NotApplicable("faketime missing")
    with bench.world() as world:
        _send([faketime, "-f", f"+{LATER.days}d", *_command(bench, world, None)], os.EX_OK)
        return Seen(f"a process whose clock is {LATER.days} days ahead", bench.rows_differ(clean, world))


def carry_out(lab: Laboratory, task: Task, errand: Errand) -> None:
    """In the other process: run the task in that world. Killed, it leaves what a lost machine leaves."""
    pins = {TableName.parse(name): version for name, version in json.loads(_pins(errand.folder).read_text()).items()}
    world = enter_world(lab, task, errand.folder, pins)
    with nullcontext() if errand.point is None else armed(kill_at(errand.point)):
        world.run((slice_named(task.scope, errand.label),))


def _command(bench: Bench, world: World, point: Point | None) -> Sequence[str]:
    if bench.lab.sent is None:
        raise NotApplicable("there is no project on disk that another process could open")
    _pins(world.folder).write_text(json.dumps({str(table): version for table, version in bench.pins.items()}))
    return bench.lab.sent(Errand(bench.task.name, bench.slices[-1].label, world.folder, point))


def _send(command: Sequence[str], expected: int) -> None:
    ended = subprocess.run(
        command, start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT, check=False
    )
    if ended.returncode != expected:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise NotApplicable(f"the process ended otherwise than planned: {said[-1] if said else ended.returncode}")


def _pins(folder: Path) -> Path:
    return folder / _PINS
