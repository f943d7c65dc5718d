"""One write of a plain job, as it was seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.ports import Suspicion


@dataclass(frozen=True)
class Write:
    """`verb`: append, overwrite, a word of SQL, `file` or `call`. `selective`: it names the part it overwrites."""

    verb: str
    target: str
    statement: str = ""
    partitions: tuple[str, ...] = ()
    selective: bool = False
    likely: tuple[Suspicion, ...] = ()

    def __str__(self) -> str:
        return f"{self.verb} {self.target}".strip()
