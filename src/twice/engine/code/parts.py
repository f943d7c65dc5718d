"""What people call the pieces that a task's code hash is made of: `RATE in pipelines/rates.py`."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from twice.core.ledger.code_parts import CodeParts, part_name
from twice.engine.code.modules import CountedFile, ModuleStatement, home_at
from twice.engine.code.syntax import meaning, names_in, root_name


@dataclass(frozen=True)
class Piece:
    """One text that is hashed, and what it is called; without a name it says nothing to anybody. `inside`: what the
    text is made of, where that has names of its own."""

    name: str
    text: str
    file: Path | None = None
    inside: tuple[Piece, ...] = ()

    def smallest(self) -> Iterator[Piece]:
        if not self.inside:
            yield self
        for each in self.inside:
            yield from each.smallest()


def named_parts(pieces: Iterable[Piece], root: Path) -> CodeParts:
    """What has one name (a name that is bound twice, say) is one part."""
    texts: dict[str, dict[str, None]] = {}
    for piece in (each for whole in pieces for each in whole.smallest() if each.name):
        file = None if piece.file is None else _place_of(piece.file, root)
        texts.setdefault(part_name(piece.name, file), {})[piece.text] = None
    return {name: hashlib.sha256("\n".join(held).encode()).hexdigest()[:12] for name, held in texts.items()}


def pieces_of(files: Iterable[CountedFile]) -> tuple[Piece, ...]:
    """The statements of these files that count; of a file that is no Python source, the file."""
    return tuple(
        piece
        for file in files
        for piece in (
            [Piece(_name_of(each), meaning(each.node), file.path) for each in file.statements]
            or ([Piece("the module", file.lines[-1], file.path)] if file.compiled else [])
        )
    )


def text_of(files: Iterable[CountedFile]) -> str:
    return "\n".join(line for file in files for line in file.lines)


def _place_of(path: Path, root: Path) -> str:
    """What a file of the project is called on every machine: its path in the project's folder; of a package elsewhere,
    in the folder that the package is in."""
    inside = root if path.is_relative_to(root) else home_at(path).parent
    return path.relative_to(inside).as_posix()


_SHOWN = 3
_OTHER = {ast.For: "for", ast.While: "while", ast.With: "with", ast.Try: "try", ast.If: "if", ast.Delete: "del"}


def _name_of(statement: ModuleStatement) -> str:
    """Stable: what it binds, or what kind of statement it is. Never a value that is written in it."""
    node = statement.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return next(iter(statement.binds)) if statement.binds else node.name  # of a renamed task's, its name of now
    if isinstance(node, ast.Import | ast.ImportFrom):
        return f"import {', '.join(alias.asname or alias.name for alias in node.names)}"
    bound = list(dict.fromkeys(_stored(node)))
    if bound:
        return ", ".join(bound[:_SHOWN]) + (", …" if len(bound) > _SHOWN else "")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return f"the call of {root_name(node.value) or 'a function'}"
    return f"a statement `{_OTHER.get(type(node), type(node).__name__.lower())}`"


def _stored(node: ast.stmt) -> Iterator[str]:
    """The names that loading the statement binds, in its order, those inside an `if` or a `try` too."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _stored(child)  # type: ignore[arg-type]
        else:
            yield from _targets(child)


def _targets(node: ast.AST) -> Iterator[str]:
    stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    yield from (name for name in names_in(node) if name in stored)
