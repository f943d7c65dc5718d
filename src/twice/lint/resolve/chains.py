"""Fluent chains unrolled: ``df.write.mode("append").save(p)`` as a root and a list of links."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from twice.lint.resolve.module import LintedModule

_LONGEST = 80


@dataclass(frozen=True)
class Link:
    name: str
    call: ast.Call | None
    """None for a plain attribute such as ``.write``."""


@dataclass(frozen=True)
class Chain:
    root: ast.expr
    links: tuple[Link, ...]

    def has(self, *names: str) -> bool:
        return any(link.name in names for link in self.links)

    def find(self, *names: str) -> Link | None:
        return next((link for link in reversed(self.links) if link.name in names), None)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        for link in self.links:
            if link.name in names and link.call is not None:
                yield link.call


def unroll(module: LintedModule, node: ast.expr, *, through: bool = True, depth: int = 0) -> Chain:
    """The chain a call ends. With `through`, a variable that holds the beginning of the chain is followed."""
    links: list[Link] = []
    current: ast.expr = node
    while len(links) < _LONGEST:
        if isinstance(current, ast.Call) and isinstance(current.func, ast.Attribute):
            links.append(Link(current.func.attr, current))
            current = current.func.value
        elif isinstance(current, ast.Attribute):
            links.append(Link(current.attr, None))
            current = current.value
        else:
            break
    links.reverse()
    if through and depth < 6 and isinstance(current, ast.Name):
        value = module.value(current)
        if isinstance(value, (ast.Call, ast.Attribute)) and value is not node:
            before = unroll(module, value, depth=depth + 1)
            return Chain(before.root, (*before.links, *links)[-_LONGEST:])
    return Chain(current, tuple(links))
