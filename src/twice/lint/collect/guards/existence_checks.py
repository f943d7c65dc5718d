"""Code that checks whether rows are already there before it writes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twice.lint.collect.module_context import ModuleContext
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import literal, method

_ASKS = {
    "fetchone", "first", "scalar", "scalar_one_or_none", "one_or_none", "exists", "count", "get_first",
    "head_object", "get_records",
    "fetchval", "find_one", "count_documents", "table_exists", "fetchall", "query", "get",
}  # fmt: skip
_PROBE = re.compile(r"\s*select\s+(count\s*\(|1\b|exists\b)", re.I)
_WORD = re.compile(r"exist|already|is_?new|duplicate|(^|_)seen|is_processed|already_processed", re.I)


def checks_existence(context: ModuleContext, node: ast.AST) -> bool:
    """The write is where a test found nothing: ``if not row: insert``, ``if row: continue`` before it."""
    child = node
    for parent in context.module.ancestors(node):
        if _left_before(context, parent, child):
            return True
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(parent, ast.If):
            otherwise = child in parent.orelse
            if _is_new(parent.test) or (_asks(context, parent.test) and otherwise != _is_negative(parent.test)):
                return True
        child = parent
    return False


def _left_before(context: ModuleContext, parent: ast.AST, child: ast.AST) -> bool:
    """An earlier statement of the block leaves it when the rows are there."""
    block = getattr(parent, "body", None)
    if not isinstance(block, list) or child not in block:
        return False
    return any(
        isinstance(statement.body[-1], (ast.Continue, ast.Return))
        and _asks_rows(context, statement.test)
        and not _is_negative(statement.test)
        for statement in _ifs(block[: block.index(child)])
    )


def _ifs(block: list[ast.stmt]) -> Iterator[ast.If]:
    """The tests of a block, also those that only some rows come to."""
    for statement in block:
        if isinstance(statement, ast.If):
            yield statement
            yield from _ifs(statement.body)


def _asks_rows(context: ModuleContext, test: ast.expr) -> bool:
    """Like `_asks`, but a mere look into a dictionary or a parameter is not enough to leave."""
    for part in ast.walk(test):
        value = context.module.value(part) if isinstance(part, (ast.Name, ast.Attribute)) else part
        if isinstance(part, ast.Name) and _WORD.search(part.id) and isinstance(value, ast.Call):
            return True
        for call in ast.walk(value) if value is not None else ():
            if not isinstance(call, ast.Call):
                continue
            if method(call) in _ASKS - {"get", "query", "count", "fetchall"} or _probes(context, call):
                return True
    return False


def _probes(context: ModuleContext, call: ast.Call) -> bool:
    """A query that only counts, or selects a single 1."""
    return method(call) == "query" and bool(call.args) and bool(_PROBE.match(constant(context.module, call.args[0])))


def _is_new(test: ast.expr) -> bool:
    names = [part.id for part in ast.walk(test) if isinstance(part, ast.Name)]
    names += [method(part) for part in ast.walk(test) if isinstance(part, ast.Call)]
    return any(re.match(r"is_?new", name, re.I) for name in names) or any(
        isinstance(part, ast.Compare) and any(isinstance(op, ast.NotIn) for op in part.ops) for part in ast.walk(test)
    )


def _is_negative(test: ast.expr) -> bool:
    """``not x``, ``x is None``, ``x == 0``, ``len(x) < 1``: true when nothing was found."""
    if isinstance(test, ast.BoolOp):
        return any(_is_negative(value) for value in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return True
    if isinstance(test, ast.Compare):
        zero = (
            literal(test.comparators[0]) in (None, 0, 1, False)
            if isinstance(test.comparators[0], ast.Constant)
            else False
        )
        return zero and isinstance(test.ops[0], (ast.Is, ast.Eq, ast.Lt))
    return False


def _asks(context: ModuleContext, test: ast.expr) -> bool:
    for part in ast.walk(test):
        if isinstance(part, ast.Call) and (method(part) in _ASKS or _WORD.search(method(part))):
            return True
        if isinstance(part, (ast.Name, ast.Attribute)):
            if _WORD.search(part.id if isinstance(part, ast.Name) else part.attr):
                return True
            value = context.module.value(part)
            calls = ast.walk(value) if value is not None else ()
            if any(
                isinstance(call, ast.Call) and (method(call) in _ASKS or _WORD.search(method(call))) for call in calls
            ):
                return True
    return False
