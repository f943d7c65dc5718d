"""Where declared files may be: in the project, in its warehouse, and where `roots` of twice.toml allows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from twice.core.names.local_path import local_path
from twice.errors import DeclarationError


@dataclass(frozen=True)
class Places:
    """`root` is the project's folder, where relative paths begin; `roots` are others that may be read. `environment`:
    the variables that params may ask for."""

    root: Path
    roots: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def full(self, path: str) -> str:
        """The path from the project's folder on, normal and absolute. It need not exist."""
        return os.path.normpath(self.root / local_path(path, "path"))

    def named(self, place: str) -> str:
        """How a place is called: from the project's folder on, if it lies there."""
        root = str(self.root)
        return place.removeprefix(root.rstrip(os.sep) + os.sep)

    def refuse_outside(self, place: str, what: str) -> None:
        """Raise DeclarationError for what lies elsewhere, links followed."""
        real = os.path.realpath(place)
        if any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self._allowed):
            return
        beyond = "" if real == place else f", which is {real}"
        raise DeclarationError(
            f"{what} reads {self.named(place)}{beyond}: that is outside of the project",
            fix=f'Allow its folder in twice.toml: roots = ["{Path(real).parent}"].',
        )

    @cached_property
    def _allowed(self) -> tuple[str, ...]:
        return tuple(os.path.realpath(folder) for folder in (self.root, *self.roots))
