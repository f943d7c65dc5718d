"""Run dates that become "now" when nobody gives one."""

from __future__ import annotations

import ast

from twice.lint.collect.clock_uses import DATE_WORD, Facts, clock_use
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import ClockFact
from twice.lint.resolve.flow import Flow, Source


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
