"""Rows that are left out because the target has them already, told by Python code rather than by SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twice.lint.collect.scene import Scene
from twice.lint.resolve.module import MODULE, method

_READS = {
    "read_sql", "read_sql_query", "read_sql_table", "read_gbq", "query", "sql", "table", "execute", "fetchall",
    "fetch_all", "get_records", "get_pandas_df", "collect", "find", "distinct", "load", "read_delta", "to_pandas",
}  # fmt: skip
_MOST = 60
"""Expressions looked at for one write; a frame made by more is not understood anyway."""


def leaves_out(scene: Scene, rows: ast.expr | None) -> bool:
    """The rows were made without those a read of the stored ones gave: ``not in known``, ``new - known``."""
    return any(
        _is_read(scene, known)
        for value in values_behind(scene, rows)
        for part in ast.walk(value)
        for known in _left_out(scene, part)
    )


def _left_out(scene: Scene, part: ast.AST) -> Iterator[ast.expr]:
    """What the expression takes its rows without."""
    if isinstance(part, ast.comprehension):
        for test in part.ifs:
            for compare in ast.walk(test):
                if isinstance(compare, ast.Compare) and isinstance(compare.ops[0], ast.NotIn):
                    yield compare.comparators[0]
    elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
        yield from (
            value
            for call in ast.walk(part.operand)
            if isinstance(call, ast.Call) and method(call) in ("isin", "is_in")
            for value in call.args
        )
    elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub):
        if _is_set(scene, part.left) or _is_set(scene, part.right):
            yield part.right
    elif isinstance(part, ast.Call) and method(part) == "difference":
        yield from part.args


def _is_set(scene: Scene, node: ast.expr) -> bool:
    value = scene.module.value(node) if isinstance(node, ast.Name) else node
    return isinstance(value, (ast.Set, ast.SetComp)) or (isinstance(value, ast.Call) and method(value) == "set")


def _is_read(scene: Scene, known: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Call) and (method(part) in _READS or re.search(r"existing|loaded|known", method(part)))
        for value in values_behind(scene, known)
        for part in ast.walk(value)
    )


def values_behind(scene: Scene, node: ast.expr | None) -> list[ast.expr]:
    """The expression and those behind its names, in its function and in the module."""
    found: list[ast.expr] = [] if node is None else [node]
    seen: set[tuple[str, str]] = set()
    for value in found:
        for part in ast.walk(value):
            if not isinstance(part, ast.Name) or len(found) > _MOST:
                continue
            for key in ((scene.module.unit(part), part.id), (MODULE, part.id)):
                if key not in seen:
                    seen.add(key)
                    found.extend(scene.module.values.get(key, [])[:6])
    return found
