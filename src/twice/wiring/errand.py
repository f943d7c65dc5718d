"""A process that a proof sends into one of its worlds: it opens the project and runs a task there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from twice.config import Settings
from twice.core.failpoints import Point
from twice.proof.apart import carry_out
from twice.proof.scratch import Errand


def command(settings: Settings) -> Callable[[Errand], Sequence[str]]:
    def sent(errand: Errand) -> Sequence[str]:
        told = (errand.task, errand.label, str(errand.folder), errand.point.value if errand.point else "")
        return [sys.executable, "-m", __name__, str(settings.root), settings.profile or "", *told]

    return sent


def main(root: str, profile: str, task: str, label: str, folder: str, point: str) -> None:
    from twice.wiring import open_project

    with open_project(Path(root), profile or None) as opened:
        errand = Errand(task, label, Path(folder), Point(point) if point else None)
        carry_out(opened.laboratory, opened.project.task(task), errand)


if __name__ == "__main__":
    main(*sys.argv[1:])
