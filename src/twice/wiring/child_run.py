"""The main module of a process that a proof starts in one of its scratch copies: it runs one task there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from twice.proof.enclosure.enclosure import here
from twice.proof.tasks.child_process import carry_out
from twice.proof.tasks.scratch import ChildRun
from twice.wiring.enclosed import EnclosedProject


def main(root: str, profile: str, copies: str, child: str) -> None:
    """In the enclosure of the process that started it, which gave it its environment."""
    opened = EnclosedProject.open(Path(root), profile or None, here())
    opened.copies.update(json.loads(copies))
    run = ChildRun.from_json(child)
    carry_out(opened.proof_setup, opened.project.task(run.task), run)
    opened.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
