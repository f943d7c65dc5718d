"""Writes of objects: rows added through an ORM's session or SQLAlchemy's statements, documents of a document store, and
values that are stepped in either.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from twice.lint.collect.clients.client_writes import ClientWrite, client_write
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, WriteFact
from twice.lint.resolve.module import keyword, literal, method

ORM_METHODS = {"add", "add_all", "bulk_save_objects", "bulk_insert_mappings", "bulk_create"}
_WEB = (
    "flask",
    "fastapi",
    "starlette",
    "sanic",
    "aiohttp.web",
    "tornado",
    "streamlit",
    "telegram",
    "discord",
)


def orm_insert(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    receiver = context.module.source(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    is_session = re.search(r"session|\bdb$", receiver) or (name == "bulk_create" and "objects" in receiver)
    if (
        not is_session
        or context.imports_any(*_WEB)
        or not (context.imports_any("sqlalchemy", "django") or "session" in receiver)
    ):
        return
    guards: set[Guard] = set()
    if literal(keyword(call, "ignore_conflicts")) is True or literal(keyword(call, "update_conflicts")) is True:
        guards.add("conflict_clause")
    yield client_write(context, call, ClientWrite("append", "orm", "", f"{name}()", guards, transaction="?"))


def executed_statement(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    statements = _statements(context, call.args[0]) if call.args else []
    if statements:
        yield from _core_insert(context, call, statements)


def _statements(context: ModuleContext, value: ast.expr) -> list[ast.Call]:
    """The calls that built a SQLAlchemy statement, also through a variable that is extended step by step."""
    if isinstance(value, ast.Call):
        return [value]
    if isinstance(value, ast.Name):
        made = context.module.values.get((context.module.unit(value), value.id), [])
        return [item for item in made if isinstance(item, ast.Call)]
    return []


def _core_insert(context: ModuleContext, call: ast.Call, statements: list[ast.Call]) -> Iterator[WriteFact]:
    """``conn.execute(table.insert(), rows)`` and ``execute(insert(Table).values(…))``."""
    words: list[str] = []
    target = ""
    for statement in statements:
        current: ast.expr = statement
        while isinstance(current, ast.Call):
            words.append(method(current))
            if method(current) == "insert":
                holder = (
                    current.func.value
                    if isinstance(current.func, ast.Attribute)
                    else (current.args or [current.func])[0]
                )
                target = context.module.source(holder)
            current = current.func.value if isinstance(current.func, ast.Attribute) else ast.Name("x")
    keyed = any(word.startswith(("on_conflict", "on_duplicate", "prefix_with", "from_select")) for word in words)
    if "insert" in words and not keyed:
        yield client_write(context, call, ClientWrite("append", "sql", target.lower(), "insert()", transaction="?"))


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
