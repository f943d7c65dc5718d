"""One use of a clock's value, as a fact: what it decides, and where; also of run dates that become "now" when nobody
gives one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import ClockFact, ClockUse
from twice.lint.resolve.flow import Flow, Source
from twice.lint.resolve.module import MODULE, method
from twice.lint.vocabulary import is_audit_column

Facts = Iterator[tuple[ClockFact, Source]]
DATE_WORD = re.compile(
    r"(date|day|dt|ds|time|start|end|since|until|ts|month|year|hour|as_?of|snapshot|today|yesterday|period|partition|window)",
    re.I,
)


def clock_use(context: ModuleContext, source: Source | None, use: ClockUse, at: ast.AST, name: str) -> Facts:
    if source is None:
        return
    if source.optional:
        if use in ("filter", "path", "window", "dag") or (name and DATE_WORD.search(name)):
            use = "default"
        else:
            return
    reaches = context.module.span(at)
    place = context.place(source.node)
    at_import = context.module.unit(source.node) == MODULE
    call = context.module.source(source.node, 40)
    yield ClockFact(place, call, use, name, at_import, reaches), source


def clock_stored(context: ModuleContext, flow: Flow, value: ast.expr, column: str, at: ast.AST) -> Facts:
    source = flow.source(value)
    if source is None or source.optional or not column:
        return
    audit = is_audit_column(column) and column.lower() not in _ordered_by(context)
    if not audit and any(
        isinstance(part, ast.Call) and method(part) in ("datediff", "months_between") for part in ast.walk(value)
    ):
        audit = False
    yield from clock_use(context, source, "audit_column" if audit else "key_column", at, column)


def _ordered_by(context: ModuleContext) -> frozenset[str]:
    """Columns that partition or order something in this file: a clock there is more than a note."""
    found = set()
    for call in context.module.calls:
        if method(call) in ("partitionBy", "orderBy", "sort_values", "dropDuplicates", "drop_duplicates"):
            for part in ast.walk(call):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.add(part.value.lower())
    return frozenset(found)


def argument_defaults(context: ModuleContext, flow: Flow, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Facts:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=False) if d is not None]
    for argument, default in pairs:
        source = flow.source(default)
        if source is not None:
            fact = ClockFact(
                context.place(source.node), context.module.source(source.node, 40), "default", argument.arg,
                at_import=True, reaches=context.module.span(default),
            )  # fmt: skip
            yield fact, source


def returned_defaults(context: ModuleContext, flow: Flow, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Facts:
    """``def run_day(): return argv[1] if given else today``: the date of the run becomes now."""
    if not DATE_WORD.search(node.name):
        return
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value is not None]
    sources = [flow.source(value) for value in values]
    clock = next((source for source in sources if source is not None), None)
    if clock is not None and (clock.optional or any(source is None for source in sources)):
        yield from clock_use(context, Source(clock.node, True), "default", node, node.name)


def fills_in(context: ModuleContext, node: ast.Assign, name: str) -> bool:
    """``if day is None: day = date.today()``, and the else branch of a check for an argument."""
    for parent in context.module.ancestors(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(parent, ast.If):
            mentioned = {part.id for part in ast.walk(parent.test) if isinstance(part, ast.Name)}
            if name in mentioned or "sys" in mentioned or "args" in mentioned or "argv" in mentioned:
                return True
    return False
