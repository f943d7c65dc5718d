"""A process that a proof sends into one of its worlds: it opens the project and runs a task there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twice.config import Settings
from twice.core.failpoints import Point
from twice.proof.enclosure.enclosure import here
from twice.proof.tasks.child_process import carry_out
from twice.proof.tasks.scratch import ChildRun
from twice.wiring.enclosed import EnclosedProject


def command(settings: Settings, copies: Mapping[str, str]) -> Callable[[ChildRun], Sequence[str]]:
    def sent(child: ChildRun) -> Sequence[str]:
        point = child.point.value if child.point else ""
        told = (child.task, child.label, str(child.folder), point, json.dumps(dict(copies)))
        return [sys.executable, "-m", __name__, str(settings.root), settings.profile or "", *told]

    return sent


def main(root: str, profile: str, task: str, label: str, folder: str, point: str, copies: str) -> None:
    """In the enclosure of the process that sent it, whose environment it has."""
    opened = EnclosedProject.open(Path(root), profile or None, here())
    opened.copies.update(json.loads(copies))
    child = ChildRun(task, label, Path(folder), Point(point) if point else None)
    carry_out(opened.proof_setup, opened.project.task(task), child)
    opened.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
