"""SQL inside Python strings: found, put together, and tied to the call that runs it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from twice.lint.collect.module_context import ModuleContext
from twice.lint.resolve.folding import Text, fold
from twice.lint.resolve.module import method

_HINT = re.compile(r"\b(insert|update|delete|merge|truncate|copy|create|drop|select|replace|conflict)\b", re.I)
_SQL = re.compile(
    r"""^(?:\s|--[^\n]*\n|/\*.*?\*/|;|\()*(?:
      insert\s+(?:or\s+\w+\s+|ignore\s+)?(?:into|overwrite)\s+\S+
    | replace\s+into\s+\S+ | merge\s+(?:into\s+)?\S+.*\busing\b | update\s+\S+\s+(?:\w+\s+)?set\b
    | delete\s+from\s+\S+ | truncate\s+(?:table\s+)?[\w.ʔ"{}`%]+\s*;?\s*(?:$|\n|restart|cascade|insert|;)
    | copy\s+(?:into\s+)?\S+.*\bfrom\b | create\s+(?:or\s+replace\s+)?(?:\w+\s+){0,3}table\b | drop\s+table\b
    | with\s+\w+\s*(?:\([^)]*\))?\s+as\s*\( | select\b.{1,20000}?\bfrom\b | begin\s*(?:transaction|;)
    | start\s+transaction
    | load\s+data\b | select\s+row_number\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_WRAPPERS = {
    "text",
    "dedent",
    "SQL",
    "strip",
    "cleandoc",
    "format",
    "join",
    "str",
    "list",
    "tuple",
    "sql_text",
    "replace",
    "Composed",
}
_MESSAGE_CALLS = {
    "print", "info", "debug", "warning", "error", "exception", "critical", "log", "write", "echo", "add_argument",
    "compile",
         "pprint", "warn", "startswith", "ArgumentParser", "Exception", "ValueError", "match", "search", "sub",
         "Field", "help"}  # fmt: skip
_CURSOR = (
    "execute", "executemany", "execute_async", "execute_batch", "execute_values", "mogrify", "copy_expert",
    "executescript",
           "execute_query", "run_query", "exec_driver_sql", "execute_sql", "execute_string", "run", "sql", "query",
           "read_sql",
           "read_sql_query", "get_records", "get_first", "get_pandas_df", "read_gbq", "command",
           "query_and_wait", "fetch", "do")  # fmt: skip


@dataclass
class SqlString:
    node: ast.expr
    text: Text
    call: ast.Call | None
    unit: str
    line: int


def sql_strings(context: ModuleContext) -> list[SqlString]:
    module = context.module
    seen: set[ast.AST] = set()
    found: list[SqlString] = []
    for node in module.nodes:
        if not isinstance(node, (ast.Constant, ast.JoinedStr)) or not _may_be_sql(node):
            continue
        top = _whole(context, node)
        if top in seen or _is_docstring(context, top):
            continue
        seen.add(top)
        text = fold(module, top)
        if text is None:
            continue
        text = _with_additions(context, top, text)
        if not _SQL.match(text.value):
            continue
        call, use = _execution(context, top)
        text = _formatted_at(context, use, text) if use is not top else text
        if call is not None and method(call) in _MESSAGE_CALLS:
            continue
        unit = context.unit(use)
        if context.constant_scope(top) and use is top and call is None:
            unit = "<constants>"
        found.append(SqlString(top, text, call, unit, use.lineno if isinstance(use, ast.expr) else top.lineno))
    return [item for item in found if not _only_a_part(context, item, seen)]


def _may_be_sql(node: ast.Constant | ast.JoinedStr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) >= 8 and bool(_HINT.search(node.value[:4000]))
    return any(isinstance(part, ast.Constant) and _HINT.search(str(part.value)[:4000]) for part in node.values)


def _whole(context: ModuleContext, node: ast.expr) -> ast.expr:
    """The largest expression that only puts text together around `node`."""
    current: ast.expr = node
    for parent in context.module.ancestors(node):
        if not _builds_text(parent, current) or not isinstance(parent, ast.expr):
            break
        current = parent
    return current


def _builds_text(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, (ast.JoinedStr, ast.FormattedValue)):
        return True
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Add) or (isinstance(parent.op, ast.Mod) and parent.right is not child)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _WRAPPERS
    if isinstance(parent, ast.Call):
        inside = parent.func is child or child in parent.args
        return inside and method(parent) in _WRAPPERS and method(parent) not in ("list", "tuple")
    return False


def _is_docstring(context: ModuleContext, node: ast.AST) -> bool:
    return isinstance(context.module.parent.get(node), ast.Expr)


def _with_additions(context: ModuleContext, top: ast.expr, text: Text) -> Text:
    """``sql += …`` and ``sql = sql + …`` later in the same function belong to the same statement."""
    parent = context.module.parent.get(top)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return text
    name = parent.targets[0].id
    unit = context.module.unit(top)
    for node in context.module.nodes:
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == name
            and node.lineno > top.lineno
            and context.module.unit(node) == unit
        ):
            more = fold(context.module, node.value)
            if more is not None:
                text.add(more)
    return text


def _execution(context: ModuleContext, top: ast.expr) -> tuple[ast.Call | None, ast.AST]:
    """The call that gets the text, directly or by the name it was given, and where that happens."""
    call = _receiver(context, top)
    if call is not None:
        return call, top
    name = name_given(context, top)
    if not name:
        return None, top
    constant = context.constant_scope(top)
    anywhere = constant or context.module.unit(top) == name  # a function that returns the text is called elsewhere
    unit = None if anywhere else context.module.unit(top)
    uses = [use for use in context.module.uses(name, unit) if anywhere or getattr(use, "lineno", 0) >= top.lineno]
    candidates = [(_receiver(context, use), use) for use in uses]
    for call, use in candidates:
        if call is not None and method(call) in _CURSOR:
            return call, use
    for call, use in candidates:
        if call is not None and method(call) not in _MESSAGE_CALLS and method(call) != "format":
            return call, use
    for _, use in candidates:
        # Formatted first, then run: ``sql = QUERY.format(table)``; ``hook.run(sql)``.
        whole = _whole(context, use) if isinstance(use, ast.expr) else use
        made = context.module.parent.get(use)
        if whole is use and isinstance(made, ast.Call) and made.func is use:
            whole = made
        again = name_given(context, whole) if isinstance(whole, ast.expr) and whole is not use else ""
        for later in context.module.uses(again, context.module.unit(use)) if again else ():
            call = _receiver(context, later)
            if call is not None and method(call) not in _MESSAGE_CALLS:
                return call, use
    return (None, uses[0]) if uses and constant else (None, top)


def _formatted_at(context: ModuleContext, use: ast.AST, text: Text) -> Text:
    """``QUERY.format(table)`` where the constant is used: its holes get the names they are filled with."""
    holder = context.module.parent.get(use)
    call = context.module.parent.get(holder) if isinstance(holder, ast.Attribute) else holder
    if (isinstance(call, ast.Call) and method(call) == "format") or (
        isinstance(call, ast.BinOp) and isinstance(call.op, ast.Mod)
    ):
        return fold(context.module, call) or text
    return text


def _receiver(context: ModuleContext, node: ast.AST) -> ast.Call | None:
    child = node
    for parent in context.module.ancestors(node):
        if isinstance(parent, ast.Call):
            if method(parent) not in _WRAPPERS:
                return parent if parent.func is not child else None
        elif not isinstance(
            parent,
            (
                ast.keyword,
                ast.List,
                ast.Tuple,
                ast.Attribute,
                ast.BinOp,
                ast.Starred,
                ast.IfExp,
                ast.Dict,
                ast.Subscript,
            ),
        ):
            return None
        child = parent
    return None


def name_given(context: ModuleContext, top: ast.expr) -> str:
    child: ast.AST = top
    for parent in context.module.ancestors(top):
        if isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.IfExp)):
            child = parent
            continue
        targets = (
            parent.targets
            if isinstance(parent, ast.Assign)
            else [parent.target]
            if isinstance(parent, (ast.AnnAssign, ast.NamedExpr))
            else []
        )
        if targets and child is getattr(parent, "value", None):
            target = targets[0]
            return (
                target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
            )
        if isinstance(parent, ast.Return):
            function = context.module.owner(parent)
            return function.name if function else ""
        return ""
    return ""


def _only_a_part(context: ModuleContext, found: SqlString, tops: set[ast.AST]) -> bool:
    """The text is only ever used to build another text that was found on its own."""
    name = name_given(context, found.node)
    if not name or (found.call is not None and method(found.call) in _CURSOR):
        return False
    uses = context.module.uses(name, None if context.constant_scope(found.node) else context.module.unit(found.node))
    return bool(uses) and all(any(parent in tops for parent in context.module.ancestors(use)) for use in uses)
