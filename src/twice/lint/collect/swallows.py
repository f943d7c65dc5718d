"""Failures of writes that are noted and forgotten."""

from __future__ import annotations

import ast

from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import SwallowFact, WriteFact
from twice.lint.resolve.module import method

_BROAD = {
    "Exception",
    "BaseException",
    "Error",
    "DatabaseError",
    "OperationalError",
    "SQLAlchemyError",
    "IntegrityError",
}
_LEAVES = {"exit", "_exit", "fail", "abort", "fail_and_raise"}
_KEEPS = {"append", "add", "put", "send", "retry", "quarantine", "send_to_dlq"}


def collect_swallows(context: ModuleContext) -> None:
    """Runs after the writes are known: a handler matters only when a write is in its try block."""
    writes = [w for w in context.gathering.all(WriteFact) if w.verb not in ("create", "drop")]
    for node in context.module.nodes:
        if not isinstance(node, ast.Try):
            continue
        handler = _swallowing(node)
        if handler is None or "callback" in context.within(node):
            continue
        target = _written(context, node, writes)
        if target is not None:
            context.gathering.add(SwallowFact(context.place(handler), target))


def _swallowing(node: ast.Try) -> ast.ExceptHandler | None:
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {
            kind.id if isinstance(kind, ast.Name) else kind.attr if isinstance(kind, ast.Attribute) else ""
            for kind in kinds
        }
        if handler.type is not None and not names & _BROAD:
            continue
        leaves = any(
            isinstance(part, (ast.Raise, ast.Return, ast.Break))
            or (isinstance(part, ast.Call) and method(part) in (_LEAVES | _KEEPS))
            for part in ast.walk(handler)
        )
        if not leaves:
            return handler
    return None


def _written(context: ModuleContext, node: ast.Try, writes: list[WriteFact]) -> str | None:
    """The target of a write in the block, or in a function of this module that the block calls."""
    first, last = node.body[0].lineno, max(getattr(part, "end_lineno", 0) or 0 for part in node.body)
    called = {
        method(part) for statement in node.body for part in ast.walk(statement) if isinstance(part, ast.Call)
    } & set(context.module.functions)
    for write in writes:
        inside = first <= write.place.order <= last or first <= write.place.span.line <= last
        if inside or write.place.unit in called:
            return write.target
    return None
