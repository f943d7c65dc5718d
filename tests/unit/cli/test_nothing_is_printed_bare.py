"""What a command prints for a person goes through `say` and `say_table`: on a terminal it is folded, in a pipe it stays
as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import twice.cli

CLI = Path(twice.cli.__file__).parent
BARE = {"print", "echo", "secho"}
ALLOWED = {
    ("terminal.py", "say"): "it is what folds",
    ("terminal.py", "say_table"): "it is what folds",
    ("options.py", "print_json"): "JSON: a program reads it",
    ("progress.py", "print_line"): "JSON lines: a program reads them",
    ("graph.py", "graph"): "a drawing in Mermaid: a program reads it",
    ("records.py", "print_calendar"): "a drawing: folded it would be none",
    ("lint.py", "_explain"): "a page in Markdown, as it is in the documentation",
}


def test_whatever_is_printed_for_a_person_is_folded_on_a_terminal() -> None:
    found = {(path.name, name) for path in CLI.glob("*.py") for name in _printing(ast.parse(path.read_text()))}
    assert found == ALLOWED.keys()


def _printing(tree: ast.Module) -> Iterator[str]:
    """The functions of a module that print themselves."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
            names = (call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls)
            yield from (function.name for name in names if name in BARE)
