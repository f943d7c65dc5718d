"""What a front-end may know besides a file's text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from twice.lint.file_facts import Role
from twice.lint.settings import LintSettings


@dataclass(frozen=True)
class ReadContext:
    settings: LintSettings = field(default_factory=LintSettings)
    role: Role = "pipeline"
    file: Path | None = None
    """Where the file is, for front-ends that look at neighbours (dbt_project.yml, compiled SQL)."""
