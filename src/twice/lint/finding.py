"""What a rule found: plain data, ready for every report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from twice.lint.file_facts import Notice

Severity = Literal["info", "warning", "error"]
RANK: dict[Severity, int] = {"info": 0, "warning": 1, "error": 2}

FAMILIES = {
    "TW0": "suppression",
    "TW1": "time",
    "TW2": "identity",
    "TW3": "append",
    "TW4": "overwrite",
    "TW5": "state",
    "TW6": "merge",
    "TW7": "order",
    "TW8": "effects",
    "TW9": "orchestration",
}


@dataclass(frozen=True)
class Related:
    """Another place that belongs to the story: the retries that make it worse, the delete before."""

    path: str
    line: int
    column: int
    message: str


@dataclass(frozen=True)
class Finding:
    code: str
    name: str
    severity: Severity
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    """What happens on the second run."""
    fix: str
    """The shortest change that prevents it."""
    declaration: str = ""
    """The `twice` declaration that would replace the code; "" where there is none."""
    source_line: str = ""
    related: tuple[Related, ...] = ()

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:3]]

    @property
    def fingerprint(self) -> str:
        """Stable while the line's text and its path stay the same, wherever in the file it moves."""
        text = "\0".join((self.code, self.path, " ".join(self.source_line.split())))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def as_data(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "name": self.name,
            "family": self.family,
            "severity": self.severity,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "message": self.message,
            "fix": self.fix,
            "declaration": self.declaration,
            "source_line": self.source_line,
            "fingerprint": self.fingerprint,
            "related": [vars(related).copy() for related in self.related],
        }


@dataclass(frozen=True)
class LintResult:
    """Everything a report needs. Findings are sorted by path, line, column and code."""

    findings: tuple[Finding, ...] = ()
    notices: tuple[Notice, ...] = ()
    files: int = 0
    suppressed: int = 0
    baselined: int = 0
    seconds: float = 0.0
    rules: tuple[Any, ...] = field(default=())
    """The rules that ran (each a `twice.lint.rules.Rule`)."""

    @property
    def by_family(self) -> dict[str, int]:
        """How many findings each family has, families without any left out."""
        counts: dict[str, int] = {}
        for finding in self.findings:
            counts[finding.family] = counts.get(finding.family, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def exit_code(self) -> int:
        """1 when a warning or an error was found; information alone does not fail a build."""
        return 1 if any(RANK[finding.severity] >= 1 for finding in self.findings) else 0
