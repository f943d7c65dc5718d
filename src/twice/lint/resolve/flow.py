"""Follows a value through one function, one level into functions of the same module, and out of their returns."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from twice.lint.resolve.module import MODULE, LintedModule, keyword, method

_THROUGH = {
    "strftime", "isoformat", "date", "replace", "astimezone", "format", "timestamp", "timetuple", "to_pydatetime",
    "subtract",
    "add", "start_of", "end_of", "to_date_string", "normalize", "floor", "strip", "lower", "lit", "str", "int",
    "float", "to_datetime",
    "to_date", "date_format", "Timestamp", "timedelta", "combine", "localize", "cast", "alias", "date_sub",
    "date_add", "to_timestamp",
    "datetime", "fromtimestamp", "utcfromtimestamp", "quote", "join", "dict", "expr", "col", "concat", "shift",
    "round",
    "hex", "encode", "hexdigest", "md5", "sha256", "strptime", "parse", "days_ago", "trunc", "date_trunc",
    "unix_timestamp",
    "relativedelta", "mktime", "to_datetime_string", "to_iso8601_string", "humanize", "ceil", "split", "Path",
    "List", "last_day", "fillna", "coalesce",
}  # fmt: skip
_DEEPEST = 7


@dataclass(frozen=True)
class Source:
    """The call a value comes from. `optional`: only when nobody gave a value."""

    node: ast.expr
    optional: bool = False
    steps: int = 0


class Flow:
    """Answers whether a value comes from a call that `is_source` accepts."""

    def __init__(self, module: LintedModule, is_source: Callable[[ast.expr], bool]) -> None:
        self.module = module
        self.is_source = is_source
        self._known: dict[int, Source | None] = {}
        self._returns: dict[str, Source | None] = {}
        self._fuel = 60_000

    def source(self, node: ast.AST | None, depth: int = 0) -> Source | None:
        if node is None or depth > _DEEPEST or not isinstance(node, ast.expr):
            return None
        if id(node) in self._known:
            return self._known[id(node)]
        self._fuel -= 1
        if self._fuel < 0:
            return None
        self._known[id(node)] = None  # a loop in the assignments ends here
        found = self._source(node, depth)
        self._known[id(node)] = found
        return found

    def _source(self, node: ast.expr, depth: int) -> Source | None:
        if self.is_source(node):
            return Source(node)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            value = self.module.value(node)
            return self.source(value, depth + 1) or self.source(node.value, depth + 1)
        if isinstance(node, ast.BoolOp):
            found = self._first(node.values, depth)
            return Source(found.node, True, found.steps) if found and isinstance(node.op, ast.Or) else found
        if isinstance(node, ast.IfExp):
            body, other = self.source(node.body, depth + 1), self.source(node.orelse, depth + 1)
            found = body or other
            return Source(found.node, not (body and other) or found.optional) if found else None
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.GeneratorExp)):
            return self.source(node.body if isinstance(node, ast.Lambda) else node.elt, depth + 1)
        if isinstance(node, ast.Dict):
            return self._first(list(node.values), depth)
        if isinstance(node, ast.Compare):
            return self._first([node.left, *node.comparators], depth)
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return self._first(children, depth)

    def _first(self, nodes: list[ast.expr], depth: int) -> Source | None:
        for node in nodes[:400]:
            found = self.source(node, depth + 1)
            if found is not None:
                return found
        return None

    def _call(self, node: ast.Call, depth: int) -> Source | None:
        name = method(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.module.functions:
            return self._return(node.func.id, depth)
        if isinstance(node.func, ast.Attribute):
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "self" and name in self.module.functions:
                return self._return(name, depth)
            found = self.source(node.func.value, depth + 1) if name in _THROUGH else None
            if found is not None:
                return found
        if (name == "get" and len(node.args) == 2) or (name in ("getenv", "getattr") and len(node.args) > 1):
            found = self.source(node.args[-1], depth + 1)
            return Source(found.node, True) if found else None
        if name in _THROUGH:
            return self._first([*node.args, *(item.value for item in node.keywords)], depth)
        return None

    def _return(self, name: str, depth: int) -> Source | None:
        if name not in self._returns:
            self._returns[name] = None
            function = self.module.functions[name]
            values = [part.value for part in ast.walk(function) if isinstance(part, ast.Return) and part.value]
            short = [value for value in values if not isinstance(value, (ast.Dict, ast.List))]
            self._returns[name] = self._first(short, depth + 1)
        return self._returns[name]

    def _name(self, node: ast.Name, depth: int) -> Source | None:
        unit = self.module.unit(node)
        for scope in (unit, MODULE):
            values = self.module.values.get((scope, node.id))
            if values:
                return self._assigned(node, scope, values, depth)
        return self._parameter(node, depth)

    def _assigned(self, node: ast.Name, scope: str, values: list[ast.expr], depth: int) -> Source | None:
        line = node.lineno if scope == self.module.unit(node) else 10**9
        earlier = [value for value in values if value.lineno <= line] or values
        found = None
        for value in reversed(earlier):
            found = self.source(value, depth + 1)
            if found is not None:
                break
        if found is None:
            return None
        given = self._is_parameter(node) or any(
            self.source(value, depth + 1) is None and not _is_empty(value) for value in values
        )
        reassigned_from_itself = all(
            node.id in {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
            for value in values
            if self.source(value, depth + 1) is None
        )
        optional = found.optional or (given and not reassigned_from_itself) or self._is_parameter(node)
        return Source(found.node, optional, found.steps + 1)

    def _is_parameter(self, node: ast.Name) -> bool:
        function = self.module.owner(node)
        if function is None:
            return False
        arguments = function.args
        return node.id in {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}

    def _parameter(self, node: ast.Name, depth: int) -> Source | None:
        function = self.module.owner(node)
        if function is None or not self._is_parameter(node):
            return None
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        for call in self.module.calls:
            if method(call) != function.name:
                continue
            offset = 1 if names[:1] == ["self"] and isinstance(call.func, ast.Attribute) else 0
            given = keyword(call, node.id)
            if given is None and node.id in names and 0 <= names.index(node.id) - offset < len(call.args):
                given = call.args[names.index(node.id) - offset]
            found = self.source(given, depth + 2)
            if found is not None:
                return Source(found.node, found.optional, found.steps + 1)
        return None


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, "")
