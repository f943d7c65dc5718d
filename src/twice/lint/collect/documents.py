"""Document stores and ORMs: documents that are added, values that are stepped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from twice.lint.collect.client_writes import ClientWrite, client_write
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, WriteFact
from twice.lint.resolve.module import literal, method

_STEPS = re.compile(r"\$(inc|push|mul|addToSet)\b|\bADD\s+\w+\s+:|SET\s+(\w+)\s*=\s*\2\s*[-+]", re.I)


def document_steps(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Mongo's $inc and $push, DynamoDB's ADD: the new value comes from the old one."""
    text = context.module.source(call, 3000)
    found = _STEPS.search(text)
    if found and "addToSet" not in found[0]:
        column = re.search(r"\$(?:inc|push|mul)'?\"?:\s*\{['\"](\w+)", text)
        fact = client_write(context, call, ClientWrite("update", "mongo", collection_of(context, call), f"{name}()"))
        yield replace(fact, increments=(column[1] if column else "value",))


def field_steps(context: ModuleContext, call: ast.Call) -> Iterator[WriteFact]:
    """Django's ``update(total=F("total") + amount)`` and SQLAlchemy's ``values(total=T.total + amount)``."""
    for item in call.keywords:
        for part in ast.walk(item.value):
            own = isinstance(part, ast.Call) and method(part) == "F" and part.args and literal(part.args[0]) == item.arg
            if own and isinstance(item.value, ast.BinOp):
                fact = client_write(context, call, ClientWrite("update", "orm", "", f"update({item.arg}=…)"))
                yield replace(fact, increments=(str(item.arg),))


def document_guards(context: ModuleContext, call: ast.Call) -> set[Guard]:
    """A document that brings its own _id is refused the second time; a unique index does the same."""
    text = context.module.source(call, 2000) + " ".join(
        context.module.source(value, 800) for value in _values(context, call)
    )
    guards: set[Guard] = set()
    if "'_id'" in text or ("create_index" in context.module.text and "unique=True" in context.module.text):
        guards.add("conflict_clause")
    return guards


def _values(context: ModuleContext, call: ast.Call) -> Iterator[ast.expr]:
    for item in call.args:
        value = context.module.value(item) if isinstance(item, ast.Name) else None
        if value is not None:
            yield value


def collection_of(context: ModuleContext, call: ast.Call) -> str:
    return context.module.source(call.func.value, 60).lower() if isinstance(call.func, ast.Attribute) else ""
