"""Facts of files that have not changed, kept between runs.

Stored as JSON, not pickled: a cache that came with somebody's repository must not be able to run code.
A cache that cannot be read or written is treated as empty; it never stops a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import types
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from twice.lint.file_facts import FileFacts


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "twice" / "lint"


@cache
def version() -> str:
    """Changes whenever the linter's own code does, so that a new rule never reads old facts."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def key(path: str, text: str, role: str, settings: str) -> str:
    parts = "\0".join((version(), path, role, settings, text))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def load(name: str) -> FileFacts | None:
    try:
        data = json.loads((folder() / name[:2] / f"{name}.json").read_text(encoding="utf-8"))
        facts: FileFacts = _decoded(FileFacts, data)
        return facts
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(name: str, facts: FileFacts) -> None:
    path = folder() / name[:2] / f"{name}.json"
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(_encoded(facts)), encoding="utf-8")
        draft.replace(path)
    except OSError:
        return


def _encoded(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return [_encoded(getattr(value, part.name)) for part in fields(value)]
    if isinstance(value, (tuple, frozenset)):
        return [_encoded(item) for item in (sorted(value) if isinstance(value, frozenset) else value)]
    return value


def _decoded(kind: Any, data: Any) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(*(_decoded(hints[part.name], item) for part, item in zip(fields(kind), data, strict=True)))
    origin = get_origin(kind)
    if origin is tuple:
        inner = get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_decoded(inner[0], item) for item in data)
        return tuple(_decoded(part, item) for part, item in zip(inner, data, strict=True))
    if origin is frozenset:
        return frozenset(data)
    if origin in (Union, types.UnionType):
        real = [part for part in get_args(kind) if part is not type(None)]
        return None if data is None else _decoded(real[0], data)
    if origin is Literal:
        return data
    return data


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
