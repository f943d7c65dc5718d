"""Constants of a plan: what the task's own Python had computed by the time Spark saw it."""

from __future__ import annotations

from typing import Any

from twice.engine.catalyst import parse


def literals(frame: Any) -> tuple[str, ...]:
    """In the order of the plan. No job runs."""
    root = parse(frame._jdf.queryExecution().analyzed().toJSON())
    return tuple(str(node.fields.get("value")) for node in root.walk() if node.kind == "Literal")
