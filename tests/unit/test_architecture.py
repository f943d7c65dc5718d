"""What import-linter cannot say: core needs the standard library alone, and every import of ours that is hidden in a
function is listed here with its reason."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "twice"

COMMAND_LINE = "`twice --help` and bad usage answer before a database library or an engine is loaded"
EARLY = "Ctrl-C while the command line is loaded is answered, too"
FIRST_USE = "importing twice, or declaring a task, loads no engine"
NO_PYSPARK = "it must report that pyspark is missing"
PARSERS = "files that come from the cache need neither sqlglot nor jinja2"
DRIVERS = "a project pays for the drivers of the table systems it uses"
SESSION = "status, history and effects start no Spark"
ENCLOSED = "the process outside a proof loads nothing of the inside"

HIDDEN = {
    "__main__": EARLY,
    "cli": COMMAND_LINE,
    "api.declare": FIRST_USE,
    "identical": FIRST_USE,
    "pytest_plugin": FIRST_USE,
    "engine.session.doctor": NO_PYSPARK,
    "project.machine": NO_PYSPARK,
    "lint.frontends.reader": PARSERS,
    "targets.delta.registration": DRIVERS,
    "targets.memory.registration": DRIVERS,
    "targets.postgres.registration": DRIVERS,
    "wiring.targets": DRIVERS,
    "wiring.open_project": SESSION,
    "project.prove": ENCLOSED,
    "wiring.enclosed": ENCLOSED,
    "wiring.proof_server": ENCLOSED,
    "wiring.prover": ENCLOSED,
}
"""Modules (or rooms) that may import ours inside functions, and why. Nowhere else, and never to break a ring."""


INDENTED = re.compile(r"^.*[ \t;:](import|from)[ \t].*\btwice\b", re.MULTILINE)
"""An import of ours that is not at the beginning of its line."""


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        yield name, path.read_text(encoding="utf-8")


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []


def hidden(text: str) -> set[str]:
    if not INDENTED.search(text):  # to parse and walk through all of the source takes a second
        return set()
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    found = (name for function in functions for node in ast.walk(function) for name in imported(node))
    return {name for name in found if name.split(".")[0] == "twice"}


def listed(name: str) -> str | None:
    """The entry of the list that covers this module."""
    parts = name.split(".")
    return next((entry for n in range(len(parts), 0, -1) if (entry := ".".join(parts[:n])) in HIDDEN), None)


def test_core_imports_the_standard_library_and_the_errors_alone() -> None:
    allowed = {*sys.stdlib_module_names, "twice"}
    wrong = {
        f"{name}: {one}"
        for name, text in modules()
        if name.split(".")[0] in ("core", "errors")
        for node in ast.walk(ast.parse(text))
        for one in imported(node)
        if one.split(".")[0] not in allowed
        or (one.startswith("twice.") and one.split(".")[1] not in ("core", "errors"))
    }
    assert wrong == set()


def test_imports_of_ours_inside_functions_are_those_of_the_list() -> None:
    found = {name: names for name, text in modules() if (names := hidden(text))}
    assert {name: names for name, names in found.items() if listed(name) is None} == {}
    assert set(HIDDEN) - {listed(name) for name in found} == set(), "no longer hidden: take it from the list"
