"""Whose code is it: the project's, or an installed package's, and of which version?"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from pathlib import Path

from twice.engine import modules

STANDARD = frozenset(sys.stdlib_module_names) | {"builtins", "__main__"}


def is_of_project(module: str | None, file: str | None, home: Path | None = None) -> bool:
    """As in modules.py; a function without a file is one of a notebook or a prompt."""
    if (module or "").partition(".")[0] in modules.ENGINES:
        return False
    if file is None:
        return (module or "").partition(".")[0] not in STANDARD or module == "__main__"
    path = Path(file)
    return not path.is_file() or modules.is_project(path.resolve(), home)


@functools.lru_cache(maxsize=1000)
def version_of(module: str | None) -> str:
    """Of the installed package that a module belongs to. Python's own go with Python."""
    top = (module or "builtins").partition(".")[0]
    if top in STANDARD:
        return ""
    loaded = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    for distribution in (top, *_distributions().get(top, ())):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


@functools.lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())
