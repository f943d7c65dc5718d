"""The main module of the process that proofs run in: it opens the projects that `proof.process` asks for there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from twice.core.ports import Progress
from twice.core.results.proof import Proof
from twice.proof.enclosure.enclosure import here
from twice.proof.process.request import Request
from twice.proof.process.serve import serve

if TYPE_CHECKING:
    from twice.proof.process.answer import Answering


def main(answers: str, asking: str, *paths: str) -> None:
    """Serve until nothing more is asked, or nobody is left to ask."""
    serve(_Answers(), int(answers), int(asking), paths)


class _Answers:
    """The projects that were opened for one answer stay open for the next."""

    def __init__(self) -> None:
        self._answering: Answering | None = None

    def __call__(self, request: Request, progress: Progress) -> Proof:
        self._answering = self._answering or _answering(progress)
        return self._answering.answer(request)


def _answering(progress: Progress) -> Answering:
    # Here: what needs Spark is imported from the path of the asking process, which `serve` has set by now.
    from twice.proof.process.answer import Answering
    from twice.wiring.enclosed import EnclosedProjects

    enclosure = here()
    return Answering(enclosure, EnclosedProjects(enclosure, progress).opened, progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
