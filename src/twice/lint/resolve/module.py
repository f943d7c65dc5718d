"""One Python module as a tree that knows its parents, its imports and where names get their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from twice.lint.facts import TextSpan

Function = ast.FunctionDef | ast.AsyncFunctionDef
MODULE = "<module>"
SPARK = "pyspark.sql.functions"
_SPARK_NAMES = {
    "current_date", "current_timestamp", "now", "unix_timestamp", "localtimestamp", "first", "last",
    "collect_list", "expr", "rand",
    "randn", "uuid", "row_number", "monotonically_increasing_id", "lit", "col", "date_sub", "date_add", "any_value",
}  # fmt: skip
_DEEP = 12


class LintedModule:
    def __init__(self, tree: ast.Module, text: str) -> None:
        self.tree = tree
        self.text = text
        self.lines = text.splitlines()
        self.parent: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        self.calls: list[ast.Call] = []
        self.aliases: dict[str, str] = {}
        self.stars: list[str] = []
        self.functions: dict[str, Function] = {}
        self.values: dict[tuple[str, str], list[ast.expr]] = {}
        """(unit, name) -> the expressions assigned to it, in order. Attributes of self: ("<self>", "x")."""
        self._reads: dict[str, list[ast.AST]] = {}
        self._units: dict[ast.AST, str] = {}
        self._walk()
        self._collect()

    def _walk(self) -> None:
        # Breadth by stack, not recursion: a file of ten thousand nested operators must not end the run.
        stack: list[ast.AST] = [self.tree]
        while stack:
            node = stack.pop()
            self.nodes.append(node)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                self.parent[child] = node
            stack.extend(reversed(children))

    def _collect(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.aliases[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append(node.module or "")
                    self.aliases[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}".lstrip(".")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.setdefault(node.name, node)
            elif isinstance(node, ast.Call):
                self.calls.append(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._reads.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._reads.setdefault(node.attr, []).append(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
                self._assign(node)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if isinstance(item.optional_vars, ast.Name):
                        self._bind(item.optional_vars, item.context_expr)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign) -> None:
        if node.value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                for part, value in zip(target.elts, node.value.elts, strict=False):
                    self._bind(part, value)
            elif isinstance(target, (ast.Tuple, ast.List)):
                for part in target.elts:
                    self._bind(part, node.value)
            else:
                self._bind(target, node.value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault((self.unit(target), target.id), []).append(value)
        elif (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id in ("self", "cls")
        ):
            self.values.setdefault(("<self>", target.attr), []).append(value)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            self.values.setdefault((self.unit(target), f"{target.value.id}.{target.attr}"), []).append(value)

    # -- positions ---------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> TextSpan:
        line = getattr(node, "lineno", 1)
        column = getattr(node, "col_offset", 0)
        end = getattr(node, "end_lineno", line) or line
        end_column = getattr(node, "end_col_offset", column) or column
        return TextSpan(line, self.letters(line, column) + 1, end, self.letters(end, end_column) + 1)

    def letters(self, line: int, offset: int) -> int:
        """The parser counts bytes; editors and people count letters."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    def source(self, node: ast.AST, longest: int = 60) -> str:
        """The node as the reader wrote it, on one line."""
        try:
            text = " ".join(ast.unparse(node).split())
        except (RecursionError, ValueError):
            return "…"
        return text if len(text) <= longest else text[: longest - 1] + "…"

    # -- scopes ------------------------------------------------------------------------------------

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        current = self.parent.get(node)
        while current is not None:
            yield current
            current = self.parent.get(current)

    def owner(self, node: ast.AST) -> Function | None:
        """The function that has the node in its body; a decorator or a default is outside."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in parent.body:
                return parent
            child = parent
        return None

    def unit(self, node: ast.AST) -> str:
        """The name of the function, or of the class for its attributes, that the node belongs to."""
        known = self._units.get(node)
        if known is None:
            known = self._units[node] = self._unit(node)
        return known

    def _unit(self, node: ast.AST) -> str:
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in parent.body:
                return parent.name
            if isinstance(parent, ast.ClassDef) and child in parent.body:
                return f"class {parent.name}"
            child = parent
        return MODULE

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        return next((parent for parent in self.ancestors(node) if isinstance(parent, ast.ClassDef)), None)

    # -- names -------------------------------------------------------------------------------------

    def dotted(self, node: ast.AST) -> str:
        """A name with its import resolved: ``dt.now`` is datetime.datetime.now; calls inside are ``()``."""
        parts: list[str] = []
        current = node
        for _ in range(40):
            if isinstance(current, ast.Attribute):
                parts.append(current.attr)
                current = current.value
            elif isinstance(current, ast.Call):
                parts.append("()")
                current = current.func
            elif isinstance(current, ast.Subscript):
                parts.append("[]")
                current = current.value
            elif isinstance(current, ast.Name):
                parts.append(self.aliases.get(current.id) or self._starred(current.id))
                break
            elif isinstance(current, ast.Constant) and isinstance(current.value, str):
                parts.append("<str>")
                break
            else:
                parts.append("<expr>")
                break
        return ".".join(reversed(parts)).replace(".()", "()").replace(".[]", "[]")

    def _starred(self, name: str) -> str:
        """A bare name that ``from pyspark.sql.functions import *`` may have brought."""
        known = name in self.functions or (MODULE, name) in self.values
        return f"{SPARK}.{name}" if SPARK in self.stars and name in _SPARK_NAMES and not known else name

    def value(self, node: ast.AST) -> ast.expr | None:
        """The expression a name was last given before `node`, in its function, its class or the module."""
        if isinstance(node, ast.Name):
            unit = self.unit(node)
            return self._latest((unit, node.id), node) or self._default(node) or self._latest((MODULE, node.id), None)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = node.value.id
            if owner in ("self", "cls"):
                holder = self.class_of(node)
                own = self._latest((f"class {holder.name}", node.attr), None) if holder else None
                return self._latest(("<self>", node.attr), None) or own
            return self._latest((self.unit(node), f"{owner}.{node.attr}"), node) or self._latest(
                (f"class {owner}", node.attr), None
            )
        return None

    def _latest(self, key: tuple[str, str], before: ast.AST | None) -> ast.expr | None:
        found = self.values.get(key)
        if not found:
            return None
        if before is None:
            return found[-1]
        line = getattr(before, "lineno", 0)
        earlier = [value for value in found if value.lineno <= line and not _inside(value, before, self)]
        return earlier[-1] if earlier else None

    def _default(self, name: ast.Name) -> ast.expr | None:
        function = self.owner(name)
        if function is None:
            return None
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
            if argument.arg == name.id:
                return default
        for argument, keyword in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=False):
            if argument.arg == name.id:
                return keyword
        return None

    def origin(self, node: ast.AST) -> str:
        """What made the object behind a name: ``PostgresHook()`` for hook, ``boto3.client()`` for s3."""
        current: ast.AST = node
        for _ in range(_DEEP):
            if isinstance(current, ast.Await):
                current = current.value
                continue
            if isinstance(current, (ast.Name, ast.Attribute)):
                found = self.value(current)
                if found is not None and found is not current and not isinstance(found, ast.Constant):
                    current = found
                    continue
            break
        return self.dotted(current)

    def uses(self, name: str, unit: str | None = None) -> list[ast.AST]:
        """Every place a name, or an attribute of that name, is read."""
        return [node for node in self._reads.get(name, ()) if unit is None or self.unit(node) == unit]


def _inside(value: ast.expr, node: ast.AST, module: LintedModule) -> bool:
    return any(parent is value for parent in module.ancestors(node)) or value is node


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    return next((item.value for item in call.keywords if item.arg in names), None)


def argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    """An argument by position or by any of its names."""
    if len(call.args) > position and not any(isinstance(item, ast.Starred) for item in call.args[: position + 1]):
        return call.args[position]
    return keyword(call, *names)


def method(call: ast.Call) -> str:
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )


def literal(node: ast.AST | None) -> object:
    """The value of a plain constant, else None."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) else None
    return None
