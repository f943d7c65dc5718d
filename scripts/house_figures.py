"""Print the structural figures of the house: the rows of the table in docs/decisions/0022 that the source itself shows.

Imports inside functions count as imports. A unit test compares that table's last column with these.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "twice"
CHECKED = ("src", "tests", "bench", "scripts", "examples")
"""What mypy is given in pyproject.toml, which leaves out the corpus."""
CORPUS = "tests/lint_corpus"

LONG_FILE, LONG_FUNCTION, SHORT_FILE, MANY_PARAMETERS = 300, 40, 80, 5
ONE_FILE_EACH = ("twice.lint.rules.", "twice.senders.")
"""Rooms with one file per rule and per receiver: their files are found by a list, or by their folder."""
ROOMS = ("runtime", "engine", "ledgers", "core")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(ast.parse(self.text)))

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes if isinstance(node, Function))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def read_modules(root: Path) -> dict[str, Module]:
    found = {}
    source = root / "src"
    for path in sorted((source / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name, path)
    return found


def imported(node: ast.AST, known: Mapping[str, Module]) -> set[str]:
    """The modules of ours that one statement imports; of `from room import module` the module."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name in known}
    if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
        names = {f"{node.module}.{alias.name}" for alias in node.names} & set(known)
        return names or {node.module} & set(known)
    return set()


def figures(root: Path = ROOT) -> dict[str, tuple[int, ...]]:
    """By the name of the table's row, the numbers of its cell in their order."""
    modules = read_modules(root)
    imports = {
        name: set().union(*(imported(node, modules) for node in module.nodes)) - {name}
        for name, module in modules.items()
    }
    functions = [function for module in modules.values() for function in module.functions]
    long = [f for f in functions if (f.end_lineno or f.lineno) - f.lineno + 1 > LONG_FUNCTION]
    wide = [function for function in functions if _parameters(function) > MANY_PARAMETERS]
    rings = rings_of(imports)
    sizes = [module.lines for module in modules.values()]
    return {
        "modules, lines": (len(modules), sum(sizes)),
        "import rings (modules in them)": (len(rings),) if not rings else (len(rings), sum(map(len, rings))),
        "imports of own modules inside functions": (_hidden(modules),),
        "largest fan-out": (max(len(each) for name, each in imports.items() if name != PACKAGE),),  # its public surface
        "largest file, files over 300 lines": (max(sizes), sum(size > LONG_FILE for size in sizes)),
        "functions above 40 lines": (len(long),),
        "functions of more than five parameters, private ones": (
            len(wide),
            sum(function.name.startswith("_") and not function.name.startswith("__") for function in wide),
        ),
        "modules under 80 lines with one importer": (len(splinters(modules, imports)),),
        "modules beside each other in `runtime`, `engine`, `ledgers`, `core`": tuple(
            _beside_each_other(root / "src" / PACKAGE / room) for room in ROOMS
        ),
        "files that mypy checks": (_checked(root),),
    }


def splinters(modules: Mapping[str, Module], imports: Mapping[str, set[str]]) -> list[str]:
    """Small modules that one other imports, apart from those of which a room has one each."""
    importers = defaultdict(set)
    for name, names in imports.items():
        for each in names:
            importers[each].add(name)
    return [
        name
        for name, module in modules.items()
        if module.lines < SHORT_FILE and not module.is_package and not name.startswith(ONE_FILE_EACH)
        if len(importers[name]) == 1
    ]


def _hidden(modules: Mapping[str, Module]) -> int:
    """Statements inside functions that import something of ours."""
    statements = {
        (name, node.lineno)
        for name, module in modules.items()
        for function in module.functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and imported(node, modules)
    }
    return len(statements)


def _parameters(function: Function) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _beside_each_other(room: Path) -> int:
    return sum(path.name != "__init__.py" for path in room.glob("*.py"))


def _checked(root: Path) -> int:
    paths = (path for folder in CHECKED for path in (root / folder).rglob("*.py"))
    return sum(not path.is_relative_to(root / CORPUS) for path in paths)


def rings_of(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Modules that import each other, over however many others: the strongly connected components (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    rings: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        open_.append(name)
        for each in imports[name]:
            if each not in order:
                visit(each)
            if each in open_:
                low[name] = min(low[name], low[each])
        if low[name] == order[name]:
            ring = set[str]()
            while name not in ring:
                ring.add(open_.pop())
            if len(ring) > 1:
                rings.append(ring)

    for name in imports:
        if name not in order:
            visit(name)
    return rings


def main(root: str | None = None) -> None:
    """Of this house, or of one in another folder: an older commit, to compare."""
    for row, numbers in figures(Path(root) if root else ROOT).items():
        print(f"{row:70} {', '.join(f'{number:,}' for number in numbers)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
