"""What a proof's process is asked, as it is pickled and sent there; and what it says before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twice.core.ports import Progress


@dataclass(frozen=True)
class ProveTask:
    root: Path
    profile: str | None
    task: str
    date: str | None
    scenarios: tuple[str, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    """Delta copies of inputs that are no Delta tables, by the name of the table."""


@dataclass(frozen=True)
class ProveJob:
    """`job` is the function as cloudpickle has it: one of a script or a notebook has no module to be found in."""

    job: bytes
    tables: tuple[str, ...]
    warehouse: Path
    scenarios: tuple[str, ...]


@dataclass(frozen=True)
class ProveScript:
    path: Path
    arguments: tuple[str, ...]
    tables: tuple[str, ...]
    warehouse: Path


Request = ProveTask | ProveJob | ProveScript


@dataclass(frozen=True)
class News:
    """A call of `Progress`, as it is pickled and sent back."""

    call: Literal["begins", "learns", "counts", "ends"]
    arguments: tuple[Any, ...] = ()

    def pass_on(self, progress: Progress) -> None:
        getattr(progress, self.call)(*self.arguments)
