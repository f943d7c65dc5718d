"""What this machine has: the only work here that needs no project."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from twice.config import load
from twice.engine.session.doctor import Check, checks
from twice.errors import TwiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def doctor() -> tuple[Check, ...]:
    """What twice needs of this machine, inside a project or anywhere else."""
    internal = _internal_here()
    return checks(probes={"publish": partial(_publish, internal=internal)}, internal=internal)


def _publish(session: SparkSession, folder: Path, internal: bool) -> Check:
    from twice.targets.delta.probe import publish_a_day  # here: that pyspark is missing is for a check to say
    from twice.wiring.delta import INSTRUMENTS

    found = publish_a_day(session, folder, INSTRUMENTS, internal)
    return Check("publish", not found.fix, found.detail, found.fix)


def _internal_here() -> bool:
    """Whether the project of this folder uses Delta's own classes; the default, where there is no project."""
    try:
        return load(Path()).internal
    except TwiceError:
        return True
