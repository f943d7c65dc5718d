"""The Delta target with the engine's instruments: targets and engine do not know each other."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from twice.core.task import TableName
from twice.engine.frames.fingerprint import row_hashes
from twice.engine.frames.observe import totalled
from twice.targets.delta.handle import Instruments
from twice.targets.delta.target import DeltaTarget


def delta_target(session: SparkSession, locate: Callable[[TableName], str], *, internal: bool = True) -> DeltaTarget:
    """See `DeltaTarget`."""
    return DeltaTarget(session, locate, Instruments(row_hashes, totalled), internal=internal)
