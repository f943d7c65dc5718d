"""Which code is the project's own, which an installed package's, and of which version."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from twice.engine.code import modules

STANDARD = frozenset(sys.stdlib_module_names) | {"builtins", "__main__"}


def is_of_project(module: str | None, file: str | None, home: Path | None = None) -> bool:
    """As in modules.py; a function without a file is one of a notebook or a prompt, if it is not frozen into Python."""
    top = (module or "").partition(".")[0]
    if top in modules.ENGINES:
        return False
    path = Path(file) if file is not None else None
    if path is None or not path.exists():
        return top not in STANDARD or module == "__main__"
    return modules.is_project(path.resolve(), home)


def is_package_of_project(top: str, home: Path | None = None) -> bool:
    """The same for a package or module by its name; one that is found nowhere is one of a notebook or a prompt."""
    if top != "__main__" and top in STANDARD | modules.ENGINES:
        return False
    return is_of_project(top, file_of_module(top), home)


def file_of_module(module: str) -> str | None:
    """The file that a module is, or the folder of one that is only a folder. Nothing is loaded to find out."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", ())), None)
    above = sys.modules.get(module.rpartition(".")[0])
    try:
        spec = PathFinder.find_spec(module, list(above.__path__) if above is not None else None)
    except (AttributeError, ImportError, ValueError):
        return None
    if spec is None:
        return None
    return spec.origin if spec.has_location else next(iter(spec.submodule_search_locations or ()), None)


@functools.lru_cache(maxsize=1000)
def version_of(module: str | None) -> str:
    """Of the installed package that a module belongs to. Python's own go with Python."""
    top = (module or "builtins").partition(".")[0]
    if top in STANDARD:
        return ""
    loaded = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    # A folder that several distributions fill (google, azure): which of them the module is of is not known.
    return " ".join(f"{name} {version}" for name in _distributions().get(top, (top,)) if (version := _version(name)))


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    found = importlib.metadata.packages_distributions()
    return {top: sorted(set(names)) for top, names in found.items()}
