"""Really killed: another process runs the task in a world and is ended by SIGKILL, with its JVM; then this one runs it
again."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from twice.core.failpoints import Point, armed, kill_at
from twice.core.scope import slice_named
from twice.core.task import TableName, Task
from twice.proof.bench import Bench, Clean
from twice.proof.scratch import Laboratory, NotApplicable, Victim, World, enter_world
from twice.proof.seen import Seen

POINTS = (Point.IN_STAGE, Point.AFTER_COMMIT)
"""Files are written and nobody knows; landed and not reported. Each costs a JVM: `crash` takes every step."""
_LIMIT = 600.0
_PINS = "pins.json"


def kill(bench: Bench, clean: Clean) -> Seen:
    command = bench.lab.victim
    if command is None:
        raise NotApplicable("there is no project on disk that another process could open")
    for point in POINTS:
        with bench.world() as world:
            _write_pins(world, bench.pins)
            _killed(command(Victim(bench.task.name, bench.slices[-1].label, world.folder, point)))
            world.clock.pass_an_hour()
            world.run(bench.slices)
            found = bench.difference(clean, world)
            if found is not None:
                return Seen(f"killed at {point.value}, then run again", found)
    return Seen(f"killed at {', '.join(point.value for point in POINTS)}, each time run again")


def die(lab: Laboratory, task: Task, victim: Victim) -> None:
    """In the other process: run the task in that world until it is killed. It leaves what a lost machine leaves."""
    pins = {TableName.parse(name): version for name, version in json.loads(_pins(victim.folder).read_text()).items()}
    world = enter_world(lab, task, victim.folder, pins)
    with armed(kill_at(victim.point)):
        world.run((slice_named(task.scope, victim.label),))


def _killed(command: Sequence[str]) -> None:
    ended = subprocess.run(
        command, start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT, check=False
    )
    if ended.returncode != -signal.SIGKILL:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise NotApplicable(f"the process ended before it could be killed: {said[-1] if said else ended.returncode}")


def _write_pins(world: World, pins: dict[TableName, int]) -> None:
    _pins(world.folder).write_text(json.dumps({str(table): version for table, version in pins.items()}))


def _pins(folder: Path) -> Path:
    return folder / _PINS
