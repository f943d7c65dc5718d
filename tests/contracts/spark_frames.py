"""Frames of Spark for the suite, whatever the target."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from typing import Any

from tests.contracts.target_suite import Row, ordered

from twice.core.ports import Column


def frame_of(session: Any, columns: Sequence[Column], rows: Sequence[Row], parts: int) -> Any:
    schema = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    frame = session.createDataFrame([tuple(row) for row in rows], schema)
    return frame.repartition(parts) if parts else frame


def collected(frame: Any) -> list[Row]:
    return ordered(tuple(_plain(value) for value in row) for row in frame.collect())


def _plain(value: Any) -> Any:
    return value.astimezone(timezone.utc) if hasattr(value, "tzinfo") else value
