"""Columns by name. Spark's names are case-insensitive, and may hold dots, blanks and backticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from twice.core.ports import Column
from twice.errors import DeclarationError, ResultRefused


def find(columns: Sequence[Column], name: str) -> Column | None:
    return next((column for column in columns if column.name.lower() == name.lower()), None)


def declared(columns: Sequence[Column], name: str, by: str) -> Column:
    """The column that a declaration (`by`) names; the error lists what there is."""
    column = find(columns, name)
    if column is None:
        raise DeclarationError(
            f"{by} names the column {name!r}, which is not there", fix=f"There are: {listed(columns)}."
        )
    return column


def refuse_twins(columns: Sequence[Column]) -> None:
    """A table cannot hold two columns of one name; a join often gives them."""
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ResultRefused(
                f"the result has more than one column named {column.name!r} (case does not count)",
                fix="Rename or drop one, e.g. result.drop(other.id) after a join, or join(…, on=[names]).",
            )
        seen.add(column.name.lower())


def not_a_frame(result: Any) -> ResultRefused:
    """The error for a task that returned something else."""
    if result is None:
        return ResultRefused("the function returned nothing", fix="End it with: return frame.")
    module, name = type(result).__module__.split(".")[0], type(result).__qualname__
    kind = f"a {name}" if module in ("builtins", "__main__") else f"a {module} {name}"
    return ResultRefused(
        f"the function returned {kind}, not a Spark DataFrame", fix="Return a frame: spark.createDataFrame(…)."
    )


def listed(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns) or "none"


def is_numeric(type_: str) -> bool:
    return type_.partition("(")[0] in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def as_plain(value: Any) -> Any:
    """A value as JSON holds it; what JSON does not know becomes text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, (type(None), bool, int, str)) else str(value)
