"""The Delta target with the engine's instruments, on folders of the caller's choice: a proof's copy, a probe's."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from twice.core.task import TableName
from twice.engine.frames.fingerprint import row_hashes
from twice.engine.frames.observe import totalled
from twice.targets.delta.target import DeltaTarget
from twice.targets.instruments import Instruments

INSTRUMENTS = Instruments(row_hashes, totalled)


def delta_target(session: SparkSession, locate: Callable[[TableName], str], *, internal: bool = True) -> DeltaTarget:
    """See `DeltaTarget`."""
    return DeltaTarget(session, locate, INSTRUMENTS, internal=internal)
