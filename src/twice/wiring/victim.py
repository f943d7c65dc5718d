"""A process that is started to be killed: it opens the project and runs a task in a world of a proof."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from twice.config import Settings
from twice.core.failpoints import Point
from twice.proof.kill import die
from twice.proof.scratch import Victim


def command(settings: Settings) -> Callable[[Victim], Sequence[str]]:
    def started(victim: Victim) -> Sequence[str]:
        told = (victim.task, victim.label, str(victim.folder), victim.point.value)
        return [sys.executable, "-m", __name__, str(settings.root), settings.profile or "", *told]

    return started


def main(root: str, profile: str, task: str, label: str, folder: str, point: str) -> None:
    from twice.wiring import open_project

    with open_project(Path(root), profile or None) as opened:
        die(opened.laboratory, opened.project.task(task), Victim(task, label, Path(folder), Point(point)))


if __name__ == "__main__":
    main(*sys.argv[1:])
