"""Which code of the project a task's result depends on: statements of its own module, and modules it imports.

In its own module a task depends on what its function names there, directly or not (a parameter or a local of the same
name is not the module's), and on every statement that may do something beyond binding its names when the module is
loaded. So a second task in the same file does not make the first one stale. A module it imports counts as a whole, less
the tasks declared there that it does not name. Installed packages do not count here: what they build is in the plan,
and of those that a function in the plan names, the version counts (decision 16).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from twice.engine.code.syntax import (
    ANYTHING,
    Import,
    bound_names,
    does_nothing,
    imports_in,
    is_main_block,
    is_quiet,
    meaning,
    module_names_in,
    names_in,
    one_import_each,
    root_name,
)

_DECLARING = frozenset({"task", "sql_task"})
ENGINES = frozenset({"twice", "pyspark", "py4j", "delta"})
"""Never the project's, wherever they are: spark-submit puts pyspark on the path from Spark's own folder."""


@dataclass(frozen=True)
class ModuleStatement:
    """`binds` is None where it may do more than bind names. `declares`: a task, and nothing else."""

    node: ast.stmt
    binds: frozenset[str] | None
    names: frozenset[str]
    declares: bool


@dataclass(frozen=True)
class ProjectModule:
    """One source file, parsed. `@task(…)` is taken off its functions: a declaration is hashed as values."""

    path: Path
    home: Path
    statements: tuple[ModuleStatement, ...]


@dataclass(frozen=True)
class ImportedFile:
    """A project file that an import loads, and what is taken from it (None: anything)."""

    path: Path
    named: tuple[str, ...] | None


@dataclass(frozen=True)
class CountedFile:
    """What of a project's file counts: as lines to be hashed, and as statements. `compiled`: it has none to read."""

    path: Path
    lines: tuple[str, ...]
    statements: tuple[ModuleStatement, ...] = ()
    compiled: bool = False


def load(path: Path, home: Path | None = None) -> ProjectModule | None:
    """None where there is no Python source to read. `home`: see is_project."""
    # linecache keeps what was first read, which is nearer to the code in memory than the file of this moment.
    text = "".join(linecache.getlines(str(path)))
    try:
        tree = ast.parse(text) if text else None
    except SyntaxError:
        tree = None
    home = home or home_at(path)
    return ProjectModule(path, home, tuple(_statements(tree, path, home))) if tree is not None else None


def files_for(module: ProjectModule, name: str, line: int, name_then: str) -> tuple[CountedFile, ...]:
    """Everything that what `name` is bound to (or is on `line`) depends on, across the project's modules.
    Equal in every process and on every machine: files are numbered in the order of their imports. `name_then`: the
    function is written down under this name, unless the module has something else of it."""
    if not any(s.binds and name_then in s.binds for s in module.statements):
        module = replace(module, statements=tuple(_named(s, name, name_then) for s in module.statements))
    roots = [s for s in module.statements if s.binds and name in s.binds]
    roots = roots or [s for s in module.statements if s.node.lineno <= line <= (s.node.end_lineno or 0)]
    own = _closure(module, roots or list(module.statements), frozenset({name}))
    number = {ImportedFile(module.path, (name,)): 0}
    files = [CountedFile(module.path, ("module 0", *_lines(own, module, number)), tuple(own))]
    for found in _growing(number):
        other, first = load(found.path, module.home), f"module {number[found]}"
        if other is None:
            held = _bytes(found.path)
            files.append(CountedFile(found.path, (first, held), compiled=held != _NOTHING))
            continue
        statements = _whole(other, found.named)
        files.append(CountedFile(found.path, (first, *_lines(statements, other, number)), tuple(statements)))
    return tuple(files)


def _named(statement: ModuleStatement, name: str, then: str) -> ModuleStatement:
    node = statement.node
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return statement
    named = copy(node)
    named.name = then
    return replace(statement, node=named)


def is_project(path: Path, home: Path | None = None) -> bool:
    """Neither installed, nor Python's own, nor twice itself; but the task's own package (`home`) always counts,
    for a project may itself be installed as a wheel."""
    return (home is not None and path.is_relative_to(home)) or not (
        "site-packages" in path.parts or any(path.is_relative_to(place) for place in _foreign_places())
    )


def home_of(function: Any) -> Path | None:
    """The package that a task's function is in; None for one of a notebook or a prompt."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code is not None else None
    return home_at(path.resolve()) if path is not None and path.is_file() else None


def _growing(number: dict[ImportedFile, int]) -> Iterator[ImportedFile]:
    """Each file after the first, while reading one may number further ones."""
    at = 1
    while at < len(number):
        yield list(number)[at]
        at += 1


def _lines(statements: list[ModuleStatement], module: ProjectModule, number: dict[ImportedFile, int]) -> Iterator[str]:
    for statement in statements:
        yield meaning(statement.node)
    for imported in imports_in(statement.node for statement in statements):
        for found in _project_files(imported, module.path, module.home):
            yield f"{imported.spelled} -> {number.setdefault(found, len(number))}"


def _whole(module: ProjectModule, named: tuple[str, ...] | None) -> list[ModuleStatement]:
    if named is None:
        return list(module.statements)
    return _closure(module, [s for s in module.statements if not s.declares], frozenset(named))


def _closure(module: ProjectModule, roots: list[ModuleStatement], wanted: frozenset[str]) -> list[ModuleStatement]:
    """The roots, the statements that may do something by themselves, and what all these name, in their order."""
    chosen = {id(s) for s in roots} | {id(s) for s in module.statements if s.binds is None}
    while True:
        names = wanted.union(*(s.names for s in module.statements if id(s) in chosen))
        if names & ANYTHING:
            return list(module.statements)
        more = {id(s) for s in module.statements if s.binds is not None and s.binds & names} - chosen
        if not more:
            return [s for s in module.statements if id(s) in chosen]
        chosen |= more


def _statements(tree: ast.Module, path: Path, home: Path) -> Iterator[ModuleStatement]:
    installed = _installed_names(tree, path, home)
    declaring = _declaring_names(tree)
    used = frozenset(names_in(tree))  # before the declarations go: what only they use does not count
    plain = _Undeclared(declaring).visit(tree)
    for node in one_import_each(plain.body):
        if does_nothing(node) or is_main_block(node):
            continue
        binds = bound_names(node)
        declares = getattr(node, "declares", False) or _is_declaration(node, declaring)
        if isinstance(node, ast.Import | ast.ImportFrom) and binds is not None and not binds & used:
            binds = None  # imported for what loading it does
        elif binds is not None and not declares and not is_quiet(node, installed):
            binds = None
        yield ModuleStatement(node, binds, module_names_in(node) | (binds or frozenset()), declares)


def _installed_names(tree: ast.Module, path: Path, home: Path) -> frozenset[str]:
    """The names that this module imports from outside the project."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and not any(
            True for each in imports_in([node]) for _ in _project_files(each, path, home)
        ):
            names |= bound_names(node) or frozenset()
    return frozenset(names)


def _declaring_names(tree: ast.Module) -> frozenset[str]:
    """`task`, `sql_task` as this module imports them from twice, and `twice` itself, under any other name too."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "twice" and not node.level:
            names |= {alias.asname or alias.name for alias in node.names if alias.name in _DECLARING}
        elif isinstance(node, ast.Import):
            names |= {alias.asname or "twice" for alias in node.names if alias.name.partition(".")[0] == "twice"}
    return frozenset(names)


def _is_declaration(node: ast.stmt, declaring: frozenset[str]) -> bool:
    """`revenue = sql_task(…)`, `revenue = task(…)(function)`."""
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return isinstance(value, ast.Call) and root_name(value) in declaring


class _Undeclared(ast.NodeTransformer):
    """Takes `@task(…)` off every function and marks the function, so that its options are no part of its text."""

    def __init__(self, declaring: frozenset[str]) -> None:
        self.declaring = declaring

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # the name ast requires
        kept = [each for each in node.decorator_list if root_name(each) not in self.declaring]
        if len(kept) < len(node.decorator_list):
            node.decorator_list = kept
            node.declares = True  # type: ignore[attr-defined]
        return self.generic_visit(node)


def _project_files(imported: Import, importer: Path, home: Path) -> Iterator[ImportedFile]:
    """The packages on the way, the module, and modules among the names taken. Nothing is imported to find out."""
    parts = [part for part in imported.module.split(".") if part]
    if not imported.level and parts[0] in ENGINES:
        return
    if imported.level:
        base = importer.parents[min(imported.level, len(importer.parents)) - 1]
        start, prefix = [str(base)], "." * imported.level
    else:
        start, prefix = [str(importer.parent), *sys.path], ""
    files, places = _descend(start, parts, prefix)
    if imported.level and not parts:
        files, places = [Path(start[0]) / "__init__.py"], start
    for index, path in enumerate(files):
        last = index == len(parts) - 1 or not parts
        yield from _in_project(path, imported.names if last else None, home)
    for name in imported.names or ():
        inner, _ = _descend(places, [name], f"{prefix}{imported.module}.") if places else ([], [])
        for path in inner:
            yield from _in_project(path, None, home)


def _in_project(path: Path, named: tuple[str, ...] | None, home: Path) -> Iterator[ImportedFile]:
    if path.is_file() and is_project(path, home):
        yield ImportedFile(path, named)


def _descend(places: list[str], parts: list[str], prefix: str) -> tuple[list[Path], list[str]]:
    """The file of each dotted part, as far as they are found, and where submodules of the last would be."""
    files: list[Path] = []
    name = prefix
    for part in parts:
        name = part if name == "" else name + part if name.endswith(".") else f"{name}.{part}"
        loaded = None if name.startswith(".") else sys.modules.get(name)
        spec = getattr(loaded, "__spec__", None) or PathFinder.find_spec(part, places)
        if spec is None:
            return files, []
        if spec.origin and spec.has_location:
            files.append(Path(spec.origin).resolve())
        places = list(spec.submodule_search_locations or ())
    return files, places


_NOTHING = hashlib.sha256().hexdigest()  # of an empty `__init__.py`


def _bytes(path: Path) -> str:
    """A compiled module of the project's own."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def home_at(path: Path) -> Path:
    """The outermost package around a file; the file itself if it is in none."""
    home = path
    while (home.parent / "__init__.py").is_file():
        home = home.parent
    return home


@functools.lru_cache(maxsize=1)
def _foreign_places() -> tuple[Path, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    places = {Path(sysconfig.get_paths()[kind]).resolve() for kind in kinds}
    return (*sorted(places), Path(__file__).resolve().parents[2])
