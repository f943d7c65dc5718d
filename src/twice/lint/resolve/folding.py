"""Text that code puts together, folded into one string with named holes where a value is not known."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from twice.lint.facts import TextSpan
from twice.lint.resolve.module import LintedModule, literal, method
from twice.lint.statements.mask import hole

_DEEPEST = 8
_LONGEST = 200_000
_PREFIX = re.compile(r"[rbfuRBFU]{0,2}(\"\"\"|'''|\"|')")
_SAME = {"dedent", "strip", "lstrip", "rstrip", "text", "SQL", "cleandoc", "lower", "upper", "as_string", "sql_text"}


@dataclass
class Text:
    """A folded string. `holes` maps each hole's name to the expression that fills it."""

    value: str = ""
    holes: dict[str, ast.expr] = field(default_factory=dict)
    parts: list[tuple[int, ast.expr]] = field(default_factory=list)

    def add(self, other: Text) -> None:
        for name in other.holes:
            self.holes.setdefault(name, other.holes[name])
        self.parts.extend((start + len(self.value), node) for start, node in other.parts)
        self.value += other.value

    def locate(self, module: LintedModule, start: int, end: int) -> TextSpan:
        """The position in the file of a piece of this text."""
        begin = [part for part in self.parts if part[0] <= start] or self.parts[:1]
        if not begin:
            return TextSpan(1)
        offset, node = begin[-1]
        return _position(module, node, self.value[offset:], start - offset, end - start)


def fold(module: LintedModule, node: ast.AST | None, depth: int = 0) -> Text | None:
    """The text of an expression, or None when nothing of it is text."""
    if node is None or depth > _DEEPEST:
        return None
    if isinstance(node, ast.Constant):
        return Text(node.value, {}, [(0, node)]) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return _joined(module, node, depth)
    if isinstance(node, ast.BinOp):
        return _operation(module, node, depth)
    if isinstance(node, ast.Call):
        return _call(module, node, depth)
    if isinstance(node, (ast.Name, ast.Attribute)):
        value = module.value(node)
        return fold(module, value, depth + 1) if value is not None else None
    if isinstance(node, ast.IfExp):
        return fold(module, node.body, depth + 1) or fold(module, node.orelse, depth + 1)
    if isinstance(node, ast.Subscript):
        return _subscript(module, node, depth)
    return None


def constant(module: LintedModule, node: ast.AST | None) -> str:
    """The text of an expression, holes shown as {name}; "" when it is not text."""
    folded = fold(module, node)
    return shown_text(folded.value) if folded else ""


def shown_text(value: str) -> str:
    return re.sub(r"ʔ(\w*)", lambda match: "{" + match[1].strip("_") + "}", value)


def label(module: LintedModule, node: ast.AST) -> str:
    """A short name for what fills a hole."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(literal(node.slice), str):
        return str(literal(node.slice))
    if isinstance(node, ast.Call):
        inner = (
            node.func.value
            if isinstance(node.func, ast.Attribute) and method(node) in ("format", "strftime", "isoformat", "date")
            else node.func
        )
        return label(module, inner)
    if isinstance(node, ast.FormattedValue):
        return label(module, node.value)
    return "value"


def _joined(module: LintedModule, node: ast.JoinedStr, depth: int) -> Text:
    result = Text("", {}, [(0, node)])
    for part in node.values:
        if isinstance(part, ast.Constant):
            result.value += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            _fill(module, result, part.value, depth)
        if len(result.value) > _LONGEST:
            break
    return result


def _is_name(text: str) -> bool:
    """A table's name put together elsewhere: ``f"{schema}.orders"`` is known by the same words wherever it is used."""
    return bool(re.fullmatch(r"[\wʔ]+(\.[\wʔ]+){1,2}", text))


def _fill(module: LintedModule, result: Text, value: ast.expr, depth: int) -> None:
    known = fold(module, value, depth + 1) if not isinstance(value, ast.Call) else None
    if known is not None and known.value and (not known.holes or _is_name(known.value)) and len(known.value) < 4000:
        result.value += known.value
        for inner, filled in known.holes.items():
            result.holes.setdefault(inner, filled)
        return
    name = label(module, value)
    while name in result.holes and ast.dump(result.holes[name]) != ast.dump(value):
        name += "x"
    result.holes[re.sub(r"\W+", "_", name).strip("_") or "_"] = value
    result.value += hole(name)


def _operation(module: LintedModule, node: ast.BinOp, depth: int) -> Text | None:
    if isinstance(node.op, ast.Add):
        left, right = fold(module, node.left, depth + 1), fold(module, node.right, depth + 1)
        if left is None and right is None:
            return None
        result = Text()
        for side, text in ((node.left, left), (node.right, right)):
            if text is not None:
                result.add(text)
            else:
                _fill(module, result, side, depth)
        return result
    if isinstance(node.op, ast.Mod):
        pattern = fold(module, node.left, depth + 1)
        if pattern is None:
            return None
        values = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
        return _percent(module, pattern, values, depth)
    if isinstance(node.op, ast.Div):  # pathlib
        left, right = fold(module, node.left, depth + 1), fold(module, node.right, depth + 1)
        result = left or Text()
        if left is None:
            _fill(module, result, node.left, depth)
        result.value += "/"
        if right is not None:
            result.add(right)
        else:
            _fill(module, result, node.right, depth)
        return result if left or right else None
    return None


def _percent(module: LintedModule, pattern: Text, values: list[ast.expr], depth: int) -> Text:
    result = Text("", dict(pattern.holes), list(pattern.parts))
    position = 0
    index = 0
    for match in re.finditer(r"%(?:\((\w+)\))?[-#0 +]*\d*(?:\.\d+)?[sdrfi]|%%", pattern.value):
        result.value += pattern.value[position : match.start()]
        position = match.end()
        if match[0] == "%%":
            result.value += "%"
        elif match[1] and len(values) == 1 and isinstance(values[0], ast.Dict):
            found = [v for k, v in zip(values[0].keys, values[0].values, strict=False) if literal(k) == match[1]]
            _fill(module, result, found[0] if found else values[0], depth)
        elif index < len(values) and not match[1]:
            _fill(module, result, values[index], depth)
            index += 1
        else:
            result.value += hole(match[1] or "value")
    result.value += pattern.value[position:]
    return result


def _call(module: LintedModule, node: ast.Call, depth: int) -> Text | None:
    name = method(node)
    if name == "format" and isinstance(node.func, ast.Attribute):
        pattern = fold(module, node.func.value, depth + 1)
        return _formatted(module, pattern, node, depth) if pattern is not None else None
    if name == "join" and isinstance(node.func, ast.Attribute):
        return _join(module, node, depth)
    if name == "replace" and isinstance(node.func, ast.Attribute):
        return fold(module, node.func.value, depth + 1)
    if name in _SAME:
        inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
        return fold(module, inner, depth + 1)
    if name in ("str", "Path", "PurePath") and node.args:
        return fold(module, node.args[0], depth + 1)
    if isinstance(node.func, ast.Name) and node.func.id in module.functions:
        # One level into a function of this module that returns text.
        returned = [
            part.value
            for part in ast.walk(module.functions[node.func.id])
            if isinstance(part, ast.Return) and part.value is not None
        ]
        return fold(module, returned[0], depth + 4) if len(returned) == 1 else None
    return None


def _formatted(module: LintedModule, pattern: Text, node: ast.Call, depth: int) -> Text:
    result = Text("", dict(pattern.holes), list(pattern.parts))
    position = 0
    automatic = 0
    named = {item.arg: item.value for item in node.keywords if item.arg}
    for match in re.finditer(r"\{\{|\}\}|\{(\w*)[^{}]*\}", pattern.value):
        result.value += pattern.value[position : match.start()]
        position = match.end()
        if match[0] in ("{{", "}}"):
            result.value += match[0][0]
            continue
        key = match[1]
        if key == "" or key.isdigit():
            index = int(key) if key else automatic
            automatic += not key
            value = node.args[index] if index < len(node.args) else None
        else:
            value = named.get(key)
        if value is not None and not isinstance(value, ast.Starred):
            _fill(module, result, value, depth)
        else:
            result.value += hole(key or "value")
    result.value += pattern.value[position:]
    return result


def _join(module: LintedModule, node: ast.Call, depth: int) -> Text | None:
    if not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    separator = literal(node.func.value)
    dotted = module.dotted(node.func)
    items: list[ast.expr]
    if dotted.endswith("path.join"):
        separator, items = "/", node.args
    elif isinstance(separator, str) and isinstance(node.args[0], (ast.List, ast.Tuple)):
        items = node.args[0].elts
    else:
        return None
    result = Text()
    for index, item in enumerate(items[:200]):
        if index:
            result.value += str(separator)
        text = fold(module, item, depth + 1)
        if text is not None:
            result.add(text)
        else:
            _fill(module, result, item, depth)
    return result


def _subscript(module: LintedModule, node: ast.Subscript, depth: int) -> Text | None:
    key = literal(node.slice)
    holder = module.value(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else node.value
    if isinstance(holder, ast.Dict) and isinstance(key, str):
        for name, value in zip(holder.keys, holder.values, strict=False):
            if literal(name) == key:
                return fold(module, value, depth + 1)
    if (
        isinstance(holder, (ast.List, ast.Tuple))
        and isinstance(key, int)
        and -len(holder.elts) <= key < len(holder.elts)
    ):
        return fold(module, holder.elts[key], depth + 1)
    return None


def _position(module: LintedModule, node: ast.expr, value: str, offset: int, length: int) -> TextSpan:
    line, column = node.lineno, module.letters(node.lineno, node.col_offset)
    source = module.lines[line - 1] if line <= len(module.lines) else ""
    prefix = _PREFIX.match(source, column)
    triple = prefix is not None and len(prefix[1]) == 3
    snippet = value[offset : offset + max(min(length, 12), 1)].split("\n")[0].split("ʔ")[0].rstrip()
    if triple:
        row = value.count("\n", 0, offset)
        found = _column(module, line + row, snippet, column if row == 0 else 0)
        if found >= 0:
            return TextSpan(line + row, found + 1, line + row, found + 1 + max(length, 1))
        start = value.rfind("\n", 0, offset) + 1
        begin = offset - start if row else column + len(prefix[0] if prefix else "") + offset
        return TextSpan(line + row, begin + 1, line + row, begin + 1 + max(length, 1))
    # Neighbouring literals are one constant to the parser: look the words up in the lines they cover.
    for row in range(line, min(node.end_lineno or line, line + 400) + 1):
        found = _column(module, row, snippet, column if row == line else 0)
        if found >= 0 and snippet:
            return TextSpan(row, found + 1, row, found + 1 + max(min(length, 60), 1))
    return module.span(node)


def _column(module: LintedModule, line: int, snippet: str, start: int) -> int:
    if not 0 < line <= len(module.lines):
        return -1
    return module.lines[line - 1].find(snippet, start)
