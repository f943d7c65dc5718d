"""What every rule is: a code, a sentence for people, cases that prove it, and a check over facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from twice.lint.facts import Place, TextSpan
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import FAMILIES, Finding, Related, Severity


@dataclass(frozen=True)
class Case:
    """One example file. It is a test of the rule and part of its documentation page."""

    code: str
    path: str = "job.py"
    also: tuple[tuple[str, str], ...] = ()
    """Other files of the same small project: (path, text)."""
    lines: tuple[int, ...] = ()
    """The lines the rule must report; empty means at least one, anywhere."""


class Rule:
    """A subclass in its own file, named after its code, is found by the registry.

    Its docstring has the sections *What it does*, *Why it breaks a re-run*, *Bad*, *Good*, *When it is fine*;
    Bad and Good are filled in from the cases when the page is rendered.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    preview: ClassVar[bool] = False
    roles: ClassVar[frozenset[str]] = frozenset({"pipeline"})
    """Which kinds of files it reads; tests are never read."""
    BAD: ClassVar[tuple[Case, ...]] = ()
    GOOD: ClassVar[tuple[Case, ...]] = ()

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:3]]

    def check(self, file: FileFacts, project: ProjectFacts, /) -> Iterable[Finding]:
        raise NotImplementedError

    def finding(
        self,
        file: FileFacts,
        where: Place | TextSpan,
        message: str,
        fix: str,
        *,
        declaration: str = "",
        severity: Severity | None = None,
        related: Iterator[Related] | tuple[Related, ...] = (),
    ) -> Finding:
        span = where.span if isinstance(where, Place) else where
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            path=file.path,
            line=span.line,
            column=span.column,
            end_line=span.end_line or span.line,
            end_column=span.end_column or span.column + 1,
            message=message,
            fix=fix,
            declaration=declaration,
            related=tuple(related),
        )
