"""What import-linter cannot say: core needs the standard library alone, and every import of ours that it does not see
as one (in a function, or by a name in a string) is listed here with its reason."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "twice"

COMMAND_LINE = "`twice --help` and bad usage answer before a database library or an engine is loaded"
EARLY = "Ctrl-C while the command line is loaded is answered, too"
FIRST_USE = "importing twice, or declaring a task, loads no engine"
NO_PYSPARK = "it must report that pyspark is missing"
PARSERS = "files that come from the cache need neither sqlglot nor jinja2"
DRIVERS = "a project pays for the drivers of the table systems it uses"
VARIABLES = "settings seldom come from the environment, and what reads them there takes as long as a small command"
SESSION = "status, history and effects start no Spark, and a usage error loads no database library"
LEDGER = "a usage error loads no database library"
ENCLOSED = "the process outside a proof loads nothing of the inside"
PROCESS = "the main module of a process of its own, which opens projects itself: to import it would close a ring"
PIPELINES = "pipeline files are the user's, none of ours"
STARTUP = "Python runs it before any other code; it loads its neighbour by its file, and nothing of ours beside"
RULES = "a rule is one file in its folder, and no list names it"

HIDDEN = {
    "__main__": EARLY,
    "cli": COMMAND_LINE,
    "api.declare": FIRST_USE,
    "identical": FIRST_USE,
    "pytest_plugin": FIRST_USE,
    "config.sources": VARIABLES,
    "engine.session.doctor": NO_PYSPARK,
    "project.machine": NO_PYSPARK,
    "project.ledger": LEDGER,
    "lint.frontends.reader": PARSERS,
    "targets.*.registration": DRIVERS,
    "wiring.targets": DRIVERS,
    "wiring.open_project": SESSION,
    "project.prove": ENCLOSED,
    "wiring.proof_server": ENCLOSED,
}
"""Modules (or rooms; `*` is one name) that may import ours inside functions, and why. Nowhere else, and never to break
a ring."""

NAMED = {
    "__init__": FIRST_USE,
    "lint.rules": RULES,
    "wiring.discover": PIPELINES,
    "wiring.enclosed": PROCESS,
    "wiring.open_project": PROCESS,
    "project.warm": PROCESS,
    "proof.enclosure.startup": STARTUP,
}
"""The same for modules that are loaded, or started as a process, by a name in a string."""


INDENTED = re.compile(r"^.*[ \t;:](import|from)[ \t].*\btwice\b", re.MULTILINE)
"""An import of ours that is not at the beginning of its line."""

LOADING = re.compile(r"import_module|__import__\(|exec_module|run_module|[\"']twice(\.\w+)+[\"']")
LOADERS = frozenset({"import_module", "__import__", "exec_module", "run_module"})


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


def named(text: str, ours: frozenset[str]) -> set[str]:
    """Modules of ours that stand in a string, and calls that load a module by its name, whatever name."""
    if not LOADING.search(text):
        return set()
    return {one for node in ast.walk(ast.parse(text)) for one in _named_by(node) if one in ours or one in LOADERS}


def _named_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(value)):
            yield value.removeprefix("twice.") if value.startswith("twice.") else ""
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in LOADERS:
            yield name


def listed(name: str, entries: Iterable[str]) -> str | None:
    """The entry of the list that covers this module."""
    return next((entry for entry in entries if covers(entry.split("."), name.split("."))), None)


def covers(entry: list[str], name: list[str]) -> bool:
    return len(entry) <= len(name) and all(part in ("*", own) for part, own in zip(entry, name, strict=False))


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
    compare({name: names for name, text in modules() if (names := hidden(text))}, HIDDEN)


def test_modules_of_ours_that_are_loaded_or_started_by_name_are_those_of_the_list() -> None:
    texts = dict(modules())
    ours = frozenset(name for name in texts if not (SOURCE / name.replace(".", "/")).is_dir())  # data is found by rooms
    compare({name: names for name, text in texts.items() if (names := named(text, ours))}, NAMED)


def test_a_module_that_is_started_by_name_or_loaded_by_any_name_is_found() -> None:
    ours = frozenset({"wiring.child_run"})
    assert named('MAIN = "twice.wiring.child_run"', ours) == {"wiring.child_run"}
    assert named('importlib.import_module(f"twice.{room}")', ours) == {"import_module"}
    assert named('FILE = "twice.toml"', ours) == set()


def compare(found: dict[str, set[str]], entries: dict[str, str]) -> None:
    assert {name: names for name, names in found.items() if listed(name, entries) is None} == {}
    unused = set(entries) - {listed(name, entries) for name in found}
    assert unused == set(), "no longer hidden: take it from the list"
