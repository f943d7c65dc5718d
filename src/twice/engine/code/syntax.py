"""Python source as meaning: its syntax tree without docstrings, comments, positions and formatting.

`ast.dump` is not used: it writes what some Python versions do not have (`type_params` since 3.12) and leaves out
empty lists since 3.13, so an upgrade of Python would make every task look changed.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

# Positions are no fields; these are, and do not change what the code does.
_SILENT_FIELDS = frozenset({"ctx", "type_comment", "type_ignores", "kind"})

_BUILTINS = frozenset(dir(builtins)) - {"exec", "eval", "__import__", "globals", "setattr", "delattr"}


@dataclass(frozen=True)
class Import:
    """`from .rates import EUR`: the module as it is spelled, and what is taken from it (None: all of it)."""

    module: str
    level: int
    names: tuple[str, ...] | None

    @property
    def spelled(self) -> str:
        return "." * self.level + self.module


def meaning(node: ast.AST) -> str:
    """One line of text, equal for two trees that do the same word for word. Empty fields are left out."""
    if isinstance(node, ast.Constant):
        return f"Constant({type(node.value).__name__} {node.value!a})"
    fields = []
    for name in sorted(set(node._fields) - _SILENT_FIELDS):
        value = getattr(node, name, None)
        if isinstance(value, list):
            value = [item for item in value if not does_nothing(item)]
            if value:
                fields.append(f"{name}=[{','.join(_item(item) for item in value)}]")
        elif value is not None:
            fields.append(f"{name}={_item(value)}")
    return f"{type(node).__name__}({','.join(fields)})"


def names_in(node: ast.AST) -> Iterator[str]:
    """Every name read or written anywhere inside, locals too."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Global | ast.Nonlocal):
            yield from inner.names


ANYTHING = frozenset({"eval", "exec", "globals", "locals", "vars", "__import__", "importlib"})
"""Code that names one of these, imported inside a function or not, may reach any name of its module."""


def module_names_in(node: ast.stmt | ast.Module) -> frozenset[str]:
    """The names inside that Python looks up in the module, by its own rules of scope: a parameter or a local hides the
    module's name, in functions and lambdas inside too; a default and a decorator are evaluated outside."""
    names = frozenset(names_in(node))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
        # Since Python 3.12 a comprehension's own names are among those of what is around it: all names are safe, and
        # the same in every version.
        return names
    try:
        table = symtable.symtable(ast.unparse(node), "<statement>", "exec")
    except (SyntaxError, ValueError, RecursionError):  # too many names are safe, too few not
        return names
    return names & (ANYTHING | frozenset(_looked_up_in_module(table, top=True)))


def _looked_up_in_module(table: symtable.SymbolTable, *, top: bool) -> Iterator[str]:
    # A name that a class binds is looked up in the module until it is bound: `payments = payments`.
    in_class = table.get_type() == "class"
    for name in table.get_symbols():
        if top or name.is_global() or (in_class and name.is_local()):
            yield name.get_name()
    for inner in table.get_children():
        yield from _looked_up_in_module(inner, top=False)


def bound_names(node: ast.stmt) -> frozenset[str] | None:
    """The names a statement binds; None if it may do more than that, or bind names it does not show."""
    if _binds_inside(node):
        return None
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Import):
        return frozenset(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        names = frozenset(alias.asname or alias.name for alias in node.names)
        return None if "*" in names else names
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    if targets and all(_is_plain(target) for target in targets):
        return frozenset(name for target in targets for name in names_in(target))
    return None


def _binds_inside(statement: ast.stmt) -> bool:
    """Whether loading it binds a name by `:=`, or a class body one of the module by `global`."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        if isinstance(node, ast.NamedExpr):
            return True
        if isinstance(node, ast.ClassDef) and any(isinstance(each, ast.Global) for each in node.body):
            return True
        body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ()
        if not isinstance(node, ast.Lambda):
            left.extend(each for each in ast.iter_child_nodes(node) if each not in body)
    return False


def is_quiet(node: ast.stmt, installed: Collection[str]) -> bool:
    """Does loading this statement only bind its names? What it calls must be built in or from an installed
    package: a project's own decorator or base class may register things elsewhere."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.ClassDef):
        run: list[ast.expr] = [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        run = list(node.decorator_list)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        run = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    else:
        return False
    roots = {root_name(each) for each in run}
    return all(root is None or root in installed or root in _BUILTINS for root in roots)


def one_import_each(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """`from m import a, b` as two statements, so that adding `b` for another's sake leaves `a` as it was."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom) and len(node.names) > 1:
            for alias in node.names:
                one = ast.Import([alias]) if isinstance(node, ast.Import) else _only(node, alias)
                yield ast.copy_location(one, node)
        else:
            yield node


def imports_in(nodes: Iterable[ast.AST]) -> tuple[Import, ...]:
    """Every import, nested ones too, sorted by spelling."""
    found: set[Import] = set()
    for node in (inner for each in nodes for inner in ast.walk(each)):
        if isinstance(node, ast.Import):
            found.update(Import(alias.name, 0, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(sorted(alias.name for alias in node.names))
            found.add(Import(node.module or "", node.level, None if "*" in names else names))
    return tuple(sorted(found, key=lambda each: (each.spelled, each.names or ())))


def root_name(node: ast.expr) -> str | None:
    """`F` of `F.udf("int")`; None where it is not called by a name, as in `"a b".split()`."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def is_main_block(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":` does not run in a module that twice loads."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def does_nothing(item: object) -> bool:
    """Docstrings and other constants that stand alone, and `pass`."""
    return isinstance(item, ast.Pass) or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))


def _only(node: ast.ImportFrom, alias: ast.alias) -> ast.ImportFrom:
    return ast.ImportFrom(module=node.module, names=[alias], level=node.level)


def _is_plain(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(_is_plain(each) for each in target.elts)
    return isinstance(target, ast.Name)


def _item(value: object) -> str:
    return meaning(value) if isinstance(value, ast.AST) else ascii(value)
