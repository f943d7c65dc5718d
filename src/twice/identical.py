"""`assert_identical`: two frames hold the same rows, or a test fails with the rows that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def assert_identical(left: DataFrame, right: DataFrame, *, ignore: Sequence[str] = ()) -> None:
    """Fail unless both frames hold the same rows, each as often; the order of rows and of columns does not count.

    Every column must be there on both sides with the same type, except those in `ignore`. Maps and NULLs are compared
    by their content. The message names the columns that differ and shows up to three rows side by side.
    """
    from twice.engine.frames.compare import compare  # here: importing twice starts no engine
    from twice.proof.report import side_by_side, summary

    found = compare(left, right, ignore)
    if found is None:
        return
    difference = summary(found).replace("than after one clean run", "in the right frame")
    types = [
        f"  {name}: left {_type(left, name)}, right {_type(right, name)}" for name in found.columns if not found.rows
    ]
    raise AssertionError(
        "\n".join([f"the frames differ: {difference}", *types, *side_by_side(found, ("left", "right"))])
    )


def _type(frame: DataFrame, name: str) -> str:
    """A column's type; names that differ only by case are one name."""
    of = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
    return of.get(name.lower(), "has no such column")
