"""Which tasks a project declares is read from the text of its pipeline files: nothing of the user's is imported.

A ledger keeps a task's records by its name and its table. Where both stand in the file as plain text, that is enough to
find them; to import the file takes PySpark and whatever else it asks for. Only what is listed here is taken for plain.
Whatever else a file does (a task made in a loop or by a function, a name from a variable, a task of another package)
may declare a task that cannot be seen: then nothing is said, and the files are imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twice.core.task import NAME, TableName
from twice.errors import DeclarationError
from twice.wiring.discover import module_file, pipeline_files

_MAKES_NO_TASK = frozenset({"__future__", "delta", "pyspark"}) | sys.stdlib_module_names - {
    *("builtins", "copy", "importlib", "operator", "pickle", "runpy", "sys", "types")
}
"""Packages whose names are no tasks and whose calls make none. The rest of the standard library can make one of
another."""

# fmt: off
_MAKES_ONE_OF_ANOTHER = frozenset({
    "dataclasses.replace", "functools.partial", "functools.partialmethod", "functools.reduce", "itertools.accumulate",
    "itertools.starmap",
})
"""What gives back what a function made that it was given, or another task of a task."""

_OF_TWICE = frozenset({
    "Again", "Daily", "EffectText", "Every", "Hourly", "Monthly", "Param", "Policy", "Probe", "PublishedSlice", "Retry",
    "Since", "Whole", "append_once", "audit", "call", "days", "email", "errors", "hours", "insert_new", "merge",
    "param", "read", "replace", "slack", "stable_row_hash", "surrogate_key", "webhook",
})
"""Names of twice that are no tasks and make none."""

_DECLARES = frozenset({"task", "sql_task"})
"""A file that sets an attribute of this name may put another one in the place of twice's."""

_BUILT_IN = frozenset({
    "abs", "bool", "dict", "enumerate", "float", "frozenset", "int", "len", "list", "max", "min", "range", "round",
    "set", "sorted", "str", "sum", "tuple", "zip",
})
"""Built-in functions that make no task."""

_REACHES_NAMES = frozenset({
    "__builtins__", "__dict__", "__import__", "delattr", "eval", "exec", "globals", "locals", "setattr", "vars",
})
"""With these, a file can bind any name."""
# fmt: on

_OF_PROJECT = "."
"""The origin of a name from another file of the project, or of such a file, which was looked at: it is no task, or one
found there."""


@dataclass(frozen=True)
class WrittenTask:
    """What a ledger keeps a task's records by."""

    name: str
    target: TableName
    formerly: tuple[str, ...] = ()


class _NotPlain(Exception):
    """What the file declares is known only when it is imported."""


def written_tasks(root: Path, folders: Sequence[Path], format_: str) -> Mapping[str, WrittenTask] | None:
    """Every task of the project, by its name, or None where the text alone does not say."""
    try:
        files = [file for folder in folders for file in pipeline_files(folder)]
        plain = set[Path]()
        found = [task for file in files for task in _File(root, files, plain).read(file)]
    except (_NotPlain, DeclarationError, OSError, SyntaxError, ValueError, RecursionError):
        return None
    tables = {TableName(task.target.name.lower(), task.target.format).located(format_) for task in found}
    tasks = {task.name: task for task in found}
    # Two of one name or of one table are an error, and the import says so.
    return tasks if len(tasks) == len(tables) == len(found) else None


@dataclass(frozen=True)
class _File:
    """One file at its reading. `plain`: files beside the pipelines that were read and declare nothing. `above`: those
    that import this one. `origins`: where each imported name is from, as `twice.task`; `bound`: all names that the
    module binds, as often as it does."""

    root: Path
    pipelines: Sequence[Path]
    plain: set[Path]
    above: tuple[Path, ...] = ()
    origins: dict[str, str] = field(default_factory=dict)
    bound: list[str] = field(default_factory=list)

    def read(self, file: Path) -> list[WrittenTask]:
        module = ast.parse(file.read_bytes())
        if file in self.pipelines:
            self._read_modules(self.root, file.relative_to(self.root).parent.parts, file)
        for node in ast.walk(module):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            replaced = isinstance(node, ast.Attribute) and name in _DECLARES and not isinstance(node.ctx, ast.Load)
            if isinstance(node, ast.Global | ast.NamedExpr) or name in _REACHES_NAMES or replaced:
                raise _NotPlain
        found = [task for statement in module.body for task in self._statement(statement, file)]
        again = {name for name in self.bound if self.bound.count(name) > 1}
        if again & {*self.origins, *(task_name for task_name, _ in found)}:
            raise _NotPlain
        return [task for _, task in found]

    def _statement(self, node: ast.stmt, file: Path) -> Iterator[tuple[str, WrittenTask]]:
        match node:
            case ast.Import():
                self._import(node, file)
            case ast.ImportFrom():
                self._import_from(node, file)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.bound.append(node.name)
                yield from self._function(node)
            case ast.ClassDef() if self._is_plain_class(node):
                self.bound.append(node.name)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                self.bound.append(name)
                yield from self._value(name, value)
            case ast.If(test=test) if self._never(test):
                for each in node.orelse:
                    yield from self._statement(each, file)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise _NotPlain

    def _import(self, node: ast.Import, file: Path) -> None:
        for alias in node.names:
            first = alias.name.partition(".")[0]
            name = alias.asname or first
            whole = alias.name if alias.asname else name
            if self._is_own(first):
                self._read_modules(self.root, alias.name.split("."), file)
                whole = _OF_PROJECT
            if self.origins.get(name) == whole:
                continue  # `import os` and `import os.path` bind one name to one module
            self.bound.append(name)
            self.origins[name] = whole

    def _import_from(self, node: ast.ImportFrom, file: Path) -> None:
        package = node.module or ""
        first = package.partition(".")[0]
        for alias in node.names:
            origin = f"{package}.{alias.name}"
            if alias.name == "*":
                raise _NotPlain
            if node.level or self._is_own(first) or (first != "twice" and first not in _MAKES_NO_TASK):
                self._check_own(node, alias.name, file)
                origin = _OF_PROJECT
            self.bound.append(alias.asname or alias.name)
            self.origins[alias.asname or alias.name] = origin

    def _is_own(self, package: str) -> bool:
        """Whether Python finds it in the project. A folder that is no package loses to a package elsewhere."""
        path, known = self.root / package, package in _MAKES_NO_TASK
        return package != "twice" and (module_file(path) is not None or (path.is_dir() and not known))

    def _check_own(self, node: ast.ImportFrom, name: str, file: Path) -> None:
        """A name of another file of the project. What a pipeline file declares is found there."""
        if node.level >= len(file.relative_to(self.root).parts):
            raise _NotPlain
        base = file.parents[node.level - 1] if node.level else self.root
        path = self._read_modules(base, node.module.split(".") if node.module else (), file)
        other = module_file(path)
        has_modules = other is None or other.parent == path
        if has_modules and (module_file(path / name) is not None or (path / name).is_dir()):
            self._read_modules(path, [name], file)
        elif other is None or other in (*self.above, file):
            raise _NotPlain

    def _read_modules(self, base: Path, parts: Iterable[str], file: Path) -> Path:
        """What runs at the import of a module: its file, and the package of each folder on the way to it. A file beside
        the pipelines must be plain, and declare nothing. Gives the path of the module."""
        path = base
        for part in parts:
            path /= part
            other = module_file(path)
            if other is None and not path.is_dir():
                raise _NotPlain
            if other is None or other in self.plain or other in (*self.pipelines, *self.above, file):
                continue
            if _File(self.root, self.pipelines, self.plain, (*self.above, file)).read(other):
                raise _NotPlain
            self.plain.add(other)
        return path

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, WrittenTask]]:
        match node.decorator_list:
            case [ast.Call() as call] if self._origin(call.func) == "twice.task":
                yield node.name, _declared(call, {"target": 0}, node.name)
            case decorators if not all(self._decorates(each) for each in decorators):
                raise _NotPlain

    def _value(self, name: str, value: ast.expr) -> Iterator[tuple[str, WrittenTask]]:
        if isinstance(value, ast.Call) and self._origin(value.func) == "twice.sql_task":
            yield name, _declared(value, {"path": 0, "target": 1}, None)
        elif not self._is_no_task(value):
            raise _NotPlain

    def _decorates(self, node: ast.expr) -> bool:
        """Whether what this decorator makes of a function or a class is no task."""
        return self._is_no_task(node) if isinstance(node, ast.Call) else self._makes_none(node)

    def _is_plain_class(self, node: ast.ClassDef) -> bool:
        """Whether it is a class at all (what makes it, `metaclass=`, may make anything) that imports nothing."""
        plain = all(
            self._is_no_task(each.value) and (each.arg not in (None, "metaclass") or self._makes_none(each.value))
            for each in node.keywords
        )
        plain = plain and not any(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)
        return plain and all(map(self._decorates, node.decorator_list)) and all(map(self._is_no_task, node.bases))

    def _is_no_task(self, node: ast.AST) -> bool:
        """Whether the value of an expression is no task, or one that is declared elsewhere in the pipelines."""
        match node:
            case ast.Call(func=func):
                inner = [] if isinstance(func, ast.Name | ast.Attribute) else [func]
                parts = [*inner, *node.args, *(keyword.value for keyword in node.keywords)]
                return self._makes_none(func) and all(self._is_no_task(part) for part in parts)
            case ast.Name(id=name) if name not in self.origins:
                return True
            case ast.Name() | ast.Attribute() if (origin := self._origin(node)) is not None:
                return origin == _OF_PROJECT or self._makes_none(node)
            case _:
                return all(self._is_no_task(part) for part in ast.iter_child_nodes(node))

    def _makes_none(self, func: ast.expr) -> bool:
        """Whether calling this makes no task."""
        if isinstance(func, ast.Name) and func.id not in self.bound:
            return func.id in _BUILT_IN
        origin = self._origin(func) or ""
        package, _, name = origin.partition(".")
        if package == "twice":
            return name.partition(".")[0].removesuffix("()") in _OF_TWICE
        # A method of what a call gave: of Spark's own, such as Window.partitionBy("a").orderBy("b").
        known = package == "pyspark" if "()" in origin else package in _MAKES_NO_TASK
        return known and origin not in _MAKES_ONE_OF_ANOTHER

    def _never(self, test: ast.expr) -> bool:
        """`if TYPE_CHECKING:` and `if __name__ == "__main__":` are not what an import does."""
        match test:
            case ast.Name() | ast.Attribute():
                return self._origin(test) == "typing.TYPE_CHECKING"
            case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant("__main__")]):
                return "__name__" not in self.bound
            case _:
                return False

    def _origin(self, node: ast.expr) -> str | None:
        """`twice.task` for `task`, as this file imports it, also under another name; None for what is its own."""
        match node:
            case ast.Name(id=name):
                return self.origins.get(name)
            case ast.Attribute(value=value, attr=attr):
                inner = self._origin(value)
                return None if inner is None else f"{inner}.{attr}"
            case ast.Call(func=func):
                inner = self._origin(func)
                return None if inner is None else f"{inner}()"
            case _:
                return None


def _declared(call: ast.Call, places: Mapping[str, int], name: str | None) -> WrittenTask:
    """The task of a declaration whose name and table are text, and that was never called otherwise."""
    given = {each.arg: each.value for each in call.keywords}
    given |= {key: call.args[place] for key, place in places.items() if place < len(call.args)}
    if None in given or "formerly" in given or any(isinstance(each, ast.Starred) for each in call.args):
        raise _NotPlain
    if "name" in given:
        name = _text(given["name"])
    elif name is None:
        name = Path(_text(given.get("path"))).stem
    if not NAME.fullmatch(name):
        raise _NotPlain
    return WrittenTask(name, TableName.parse(_text(given.get("target"))))


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _NotPlain
