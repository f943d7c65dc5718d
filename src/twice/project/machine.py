"""What this machine's Spark and Delta can do: the only work here that needs no project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from twice.engine.session import doctor
from twice.engine.session.doctor import Check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def deep_checks(found: Iterable[Check], internal: bool) -> Iterator[Check]:
    """On a session that is started for them, unless the quick checks have `found` that none could be."""
    return doctor.deep_checks(found, probes={"publish": partial(_publish, internal=internal)}, internal=internal)


def _publish(session: SparkSession, folder: Path, internal: bool) -> Check:
    from twice.targets.delta.probe import publish_a_day  # here: that pyspark is missing is for a check to say
    from twice.wiring.delta import INSTRUMENTS

    found = publish_a_day(session, folder, INSTRUMENTS, internal)
    return Check("publish", not found.fix, found.detail, found.fix)
