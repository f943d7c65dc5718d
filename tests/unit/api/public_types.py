"""Every type of ours that a user of a public name can meet: in a signature, a field, a property, an alias."""

from __future__ import annotations

import ast
import builtins
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from inspect import get_annotations, isclass, isfunction, ismodule, unwrap
from types import UnionType
from typing import Any

import twice
from twice.core.results.summary import Summarized, SummarizedSequence

Named = tuple[str, Any]
"""A type, and how the source spells it."""

SPARK = frozenset({"Column", "DataFrame", "SparkSession"})
"""Imported for type checkers alone: pyspark is not loaded for them."""

OPAQUE = (twice.Strategy,)
"""What `replace()` and the others return is given to `write=`, and not looked into."""

DECLARED = (twice.Daily, twice.Monthly, twice.Hourly, twice.Every, twice.Whole, twice.Since, twice.Policy, twice.Retry)
"""Made by users and given to a task: what twice asks of them is its own affair. As on the page of the API."""

MACHINERY = (Summarized, SummarizedSequence)


def reachable(public: Any) -> dict[str, Any]:
    """The types that a public name leads to, each followed in its turn."""
    found: dict[str, Any] = {}
    ahead = [public]
    while ahead:
        new = {name: value for name, value in _types_of(ahead.pop()) if name not in found}
        found |= new
        ahead += new.values()
    return found


def _types_of(public: Any) -> Iterator[Named]:
    if isfunction(public):
        yield from _of_function(public)
    elif ismodule(public):
        yield from (each for one in vars(public).values() if _makes_audit(one) for each in _of_function(one))
    elif isclass(public):
        yield from () if public in OPAQUE or issubclass(public, Enum) else _of_class(public)
    else:
        yield from _evaluated(public)


def _makes_audit(one: Any) -> bool:
    return isfunction(one) and one.__annotations__.get("return") == "Audit"


def _of_class(public: type) -> Iterator[Named]:
    for base in public.__mro__:
        if _is_ours(base) and base not in MACHINERY:
            for name, annotation in get_annotations(base).items():
                yield from () if name.startswith("_") else _named(annotation, base.__module__)
            yield from () if public in DECLARED else _of_methods(base)
    for base in getattr(public, "__orig_bases__", ()):
        yield from (each for each in _evaluated(base) if each[1] not in MACHINERY)


def _of_methods(base: type) -> Iterator[Named]:
    for name, each in vars(base).items():
        function = each.fget if isinstance(each, property) else each
        if isfunction(function) and (not name.startswith("_") or name == "__init__") and name != "as_table":
            yield from _of_function(function)


def _of_function(function: Any) -> Iterator[Named]:
    written = unwrap(function)
    for annotation in written.__annotations__.values():
        yield from _named(annotation, written.__module__)


def _named(annotation: Any, module: str) -> Iterator[Named]:
    """The types of ours in an annotation, by the names it uses: once it is evaluated, an alias has none."""
    if not isinstance(annotation, str):
        yield from _evaluated(annotation)
        return
    known = {**vars(builtins), **vars(sys.modules[module])}
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name) and node.id not in SPARK:
            value = known[node.id]
            if _is_ours(value) or _is_alias(node.id, value):
                yield node.id, value


def _evaluated(hint: Any) -> Iterator[Named]:
    """The classes of ours in an alias, a base or an annotation that is no text."""
    if isinstance(hint, list | tuple):
        for each in hint:
            yield from _evaluated(each)
    elif typing.get_origin(hint) is not typing.Literal and typing.get_args(hint):
        yield from _evaluated(typing.get_args(hint))
    elif _is_ours(hint):
        yield hint.__name__, hint


def _is_ours(value: Any) -> bool:
    return isclass(value) and value.__module__.partition(".")[0] == "twice"


def _is_alias(name: str, value: Any) -> bool:
    """Also one for Any: it has a meaning, or it would have no name."""
    return isinstance(value, UnionType) or typing.get_origin(value) is not None or (value is Any and name != "Any")
