"""Rows that are left out because the target has them already, as Python code shows it rather than SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twice.lint.collect.module_context import ModuleContext
from twice.lint.resolve.module import MODULE, method

_READS = {
    "read_sql", "read_sql_query", "read_sql_table", "read_gbq", "query", "sql", "table", "execute", "fetchall",
    "fetch_all", "get_records", "get_pandas_df", "collect", "find", "distinct", "load", "read_delta", "to_pandas",
}  # fmt: skip
_MOST = 60
"""Expressions looked at for one write; a frame made by more is not understood anyway."""


def skips_existing(context: ModuleContext, rows: ast.expr | None) -> bool:
    """The rows were made without those a read of the stored ones gave: ``not in known``, ``new - known``."""
    return any(
        _is_read(context, known)
        for value in values_behind(context, rows)
        for part in ast.walk(value)
        for known in (*_left_out(context, part), *_not_gathered(context, part))
    )


def is_after_mark(context: ModuleContext, rows: ast.expr | None, target: str) -> bool:
    """The rows are those behind the newest stored one: ``F.col("id") > last``, and last is max(id) of the target."""
    words = re.findall(r"\w+", target)
    name = words[-1] if words else ""
    return any(
        isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Gt) and _is_newest(context, part, name)
        for value in values_behind(context, rows)
        for part in ast.walk(value)
    )


def _is_newest(context: ModuleContext, test: ast.Compare, name: str) -> bool:
    texts = [context.module.source(value, 2000).lower() for value in values_behind(context, test.comparators[0])]
    return bool(name) and any(re.search(r"\bmax\(", text) and re.search(rf"\b{name}\b", text) for text in texts)


def _not_gathered(context: ModuleContext, part: ast.AST) -> Iterator[ast.expr]:
    """What the lists behind a name are filled without: ``if key not in known: new.append(row)``."""
    if not isinstance(part, ast.Name):
        return
    unit = context.module.unit(part)
    for use in context.module.uses(part.id, unit):
        holder = context.module.parent.get(use)
        if not isinstance(holder, ast.Attribute) or holder.attr not in ("append", "extend", "add"):
            continue
        for parent in context.module.ancestors(holder):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                break
            if isinstance(parent, ast.If) and isinstance(parent.test, ast.Compare):
                yield from parent.test.comparators[:1] if isinstance(parent.test.ops[0], ast.NotIn) else ()


def _left_out(context: ModuleContext, part: ast.AST) -> Iterator[ast.expr]:
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
        if _is_set(context, part.left) or _is_set(context, part.right):
            yield part.right
    elif isinstance(part, ast.Call) and method(part) == "difference":
        yield from part.args


def _is_set(context: ModuleContext, node: ast.expr) -> bool:
    value = context.module.value(node) if isinstance(node, ast.Name) else node
    return isinstance(value, (ast.Set, ast.SetComp)) or (isinstance(value, ast.Call) and method(value) == "set")


def _is_read(context: ModuleContext, known: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Call) and (method(part) in _READS or re.search(r"existing|loaded|known", method(part)))
        for value in values_behind(context, known)
        for part in ast.walk(value)
    )


def values_behind(context: ModuleContext, node: ast.expr | None) -> list[ast.expr]:
    """The expression and those behind its names, in its function and in the module."""
    found: list[ast.expr] = [] if node is None else [node]
    seen: set[tuple[str, str]] = set()
    for value in found:
        for part in ast.walk(value):
            if not isinstance(part, ast.Name) or len(found) > _MOST:
                continue
            for key in ((context.module.unit(part), part.id), (MODULE, part.id)):
                if key not in seen:
                    seen.add(key)
                    found.extend(context.module.values.get(key, [])[:6])
    return found
