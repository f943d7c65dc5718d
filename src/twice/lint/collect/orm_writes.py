"""Rows added through an ORM's session, or through statements that SQLAlchemy builds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twice.lint.collect.client_writes import ClientWrite, client_write
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
