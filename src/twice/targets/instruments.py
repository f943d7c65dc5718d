"""What the engine gives to a target that writes Spark frames: targets and engine do not import each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

Hashes: TypeAlias = "Callable[[DataFrame], tuple[SparkColumn, SparkColumn]]"


@dataclass(frozen=True)
class Instruments:
    """`row_hashes`: two independent 64-bit hashes of a row's content, as expressions on a frame's columns.
    `totalled`: a frame as it is, and the sums of some numbers of its rows, to be read once it is written.
    """

    row_hashes: Hashes
    totalled: Callable[..., tuple[DataFrame, Callable[[], tuple[int, ...]]]]
