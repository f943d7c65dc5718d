"""What a declaration names must be in the result, and fit for its use. Pure; checked before anything is written."""

from __future__ import annotations

import re

from twice.core.ports import Column, Shape
from twice.core.task import Task
from twice.errors import DeclarationError

_NO_ORDER = re.compile(r"(array|map|struct|variant|interval|void)\b", re.IGNORECASE)
"""Types of which two values are not simply equal, or neither before nor after each other."""


def check_columns(task: Task, shape: Shape) -> None:
    """Raise DeclarationError for a key, `newest_by` or audit that the result cannot serve."""
    for column in task.write.key:
        _check_plain(_found(shape, column, _option(task, "key", column)), f"the key {column}")
    newest_by = task.write.newest_by
    if newest_by is not None:
        _check_plain(_found(shape, newest_by, _option(task, "newest_by", newest_by)), f"newest_by {newest_by}")
    for audit in task.audits:
        for column in audit.columns:
            _found(shape, column, f"audit.{audit.name}")


def _option(task: Task, option: str, column: str) -> str:
    return f"{task.write.name}({option}={column!r})"


def _found(shape: Shape, name: str, by: str) -> Column:
    for column in shape.columns:
        if column.name.lower() == name.lower():
            return column
    raise DeclarationError(
        f"{by} names a column that the result does not have: {name}",
        fix=f"The result has: {', '.join(column.name for column in shape.columns)}.",
    )


def _check_plain(column: Column, what: str) -> None:
    if _NO_ORDER.match(column.type):
        raise DeclarationError(
            f"{what} is of type {column.type}, whose values cannot be compared and ordered",
            fix="Take a number, a text, a date, a time or a boolean: name a part of it in a column of its own.",
        )
