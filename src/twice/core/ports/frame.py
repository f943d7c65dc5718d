"""Rows in flight between engine and target, and their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Frame = Any
"""A Spark DataFrame, or `targets.memory.rows.Rows` where there is no JVM."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """In Spark's simple form, odd names quoted: `decimal(12,2)`, `array<string>`, `struct<`user-agent`:string>`."""


@dataclass(frozen=True)
class Shape:
    """A result's or a table's columns, and the column a table is partitioned by (None: not at all)."""

    columns: tuple[Column, ...]
    partitioned_by: str | None = None
