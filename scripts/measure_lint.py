"""Measures `twice lint` on the labelled corpus: recall of what a careful reader marked, errors on files called clean.

    python scripts/measure_lint.py [--split train|holdout] [--preview] [--verbose]

`tests/unit/lint/test_corpus.py` holds the linter to these numbers. Holdout files are never listed with --verbose, so
that nobody tunes rules on them by accident.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twice.lint.finding import Finding
from twice.lint.run import lint_paths
from twice.lint.settings import LintSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "lint_corpus"
SPLITS = ("train", "holdout")
NEAR = 2
"""Lines a finding may be away from its label: a call and the string it sends are one place to a reader."""


@dataclass(frozen=True)
class Label:
    """Where a reader stops, and which codes are a fair name for it. Not `required`: it may be reported."""

    spans: tuple[tuple[int, int], ...]
    codes: tuple[str, ...]
    reason: str
    required: bool

    def matches(self, finding: Finding) -> bool:
        near = any(first - NEAR <= finding.line <= last + NEAR for first, last in self.spans)
        return near and finding.code in self.codes


@dataclass(frozen=True)
class LabelledFile:
    path: str
    split: str
    clean: bool
    labels: tuple[Label, ...]


@dataclass
class Score:
    """Recall over required labels; precision over warnings and errors; errors in files a reader calls clean."""

    wanted: int = 0
    found: int = 0
    reported: int = 0
    agreed: int = 0
    clean: int = 0
    accused: int = 0
    missed: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.found / max(self.wanted, 1)

    @property
    def precision(self) -> float:
        return self.agreed / max(self.reported, 1)

    @property
    def clean_with_errors(self) -> float:
        return self.accused / max(self.clean, 1)

    def __str__(self) -> str:
        return (
            f"recall {self.found}/{self.wanted} = {self.recall:.1%}, "
            f"precision {self.agreed}/{self.reported} = {self.precision:.1%}, "
            f"clean files with an error {self.accused}/{self.clean} = {self.clean_with_errors:.1%}"
        )


def labelled_files() -> list[LabelledFile]:
    data = tomllib.loads((CORPUS / "labels.toml").read_text(encoding="utf-8"))
    return [_file(entry) for entry in data["file"]]


def lint_split(split: str, *, preview: bool) -> list[Finding]:
    """Each split is a project of its own, as a user would give it."""
    return list(lint_paths([CORPUS / split], LintSettings(cache=False, preview=preview, jobs=1)).findings)


def score(files: Iterable[LabelledFile], findings: Iterable[Finding]) -> Score:
    """How the findings (of the whole corpus) agree with the labels of `files`."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(Path(finding.path).relative_to(CORPUS).as_posix(), []).append(finding)
    counted = Score()
    for file in files:
        _count(counted, file, by_path.get(file.path, []))
    return counted


def _file(entry: dict[str, Any]) -> LabelledFile:
    labels = tuple(
        Label(
            tuple((first, last) for first, last in each["spans"]),
            tuple(each["codes"]),
            each["reason"],
            each.get("required", True),
        )
        for each in entry.get("label", ())
    )
    return LabelledFile(entry["path"], entry["split"], entry.get("clean", False), labels)


def _count(counted: Score, file: LabelledFile, findings: list[Finding]) -> None:
    for label in file.labels:
        if label.required:
            counted.wanted += 1
            if any(label.matches(finding) for finding in findings):
                counted.found += 1
            else:
                counted.missed.append(f"{file.path}:{label.spans[0][0]} {'|'.join(label.codes)} {label.reason}")
    for finding in findings:
        if finding.severity == "info":
            continue
        counted.reported += 1
        if any(label.matches(finding) for label in file.labels):
            counted.agreed += 1
        else:
            counted.extra.append(f"{file.path}:{finding.line} {finding.severity} {finding.code} {finding.message}")
    if file.clean:
        counted.clean += 1
        counted.accused += any(finding.severity == "error" for finding in findings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="train", choices=SPLITS)
    parser.add_argument("--preview", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    files = [file for file in labelled_files() if file.split == options.split]
    counted = score(files, lint_split(options.split, preview=options.preview))
    print(counted)
    if options.verbose and options.split == "train":
        print("\nmissed:", *counted.missed, "\nnot labelled:", *counted.extra, sep="\n  ")


if __name__ == "__main__":
    main()
