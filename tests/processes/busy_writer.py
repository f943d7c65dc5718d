"""A process that publishes one slice after another until somebody kills it.

    python -m tests.processes.busy_writer PROJECT SEED

It runs and restates tasks of tests/soak/kill_project.py in an order of its own, always among the days that `open_days`
names, so that several of these meet on the same slices. It says `ready` once its session is up, then what became of
each run.
"""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path

from tests.soak.kill_project import BY_DAY, INCREMENTAL, RESTATED, WHOLE, open_days

from twice.config import load
from twice.core.results.run import RunRequest
from twice.errors import TwiceError
from twice.project import run as runs
from twice.wiring.open_project import OpenProject

LIFETIME_SECONDS = 900.0
"""Nobody leaves one of these behind: it ends by itself, or as soon as its parent is gone."""


def main() -> None:
    root, choice = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    parent, end = os.getppid(), time.monotonic() + LIFETIME_SECONDS
    opened = OpenProject(load(root))
    opened.context.engine.fresh().range(1).count()
    report("ready")
    while time.monotonic() < end and os.getppid() == parent:
        task = choice.choice([*BY_DAY, *BY_DAY, *INCREMENTAL, *WHOLE])
        day = choice.choice(open_days(root)) if task in BY_DAY else None
        restate = task in RESTATED and choice.random() < 0.4
        try:
            for result in runs.run(
                opened,
                task,
                runs.slices(opened, task, day),
                RunRequest("restate" if restate else "run", timedelta(seconds=20)),
            ):
                report(f"{task} {day} {result.outcome.value}")
        except TwiceError as error:
            report(f"{task} {day} {type(error).__name__}: {error}")


def report(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
