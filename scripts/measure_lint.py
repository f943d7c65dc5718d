"""Measures `twice lint` on the labelled corpus: recall of what a careful reader marked, errors on files called clean.

    python scripts/measure_lint.py [--split train|holdout] [--verbose]

A label counts as found when a finding has one of its codes and touches one of its spans (a line of tolerance).
Holdout files are never listed with --verbose, so that nobody tunes rules on them by accident.
"""

from __future__ import annotations

import argparse
import sys
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

CORPUS = Path(__file__).parent.parent / "tests" / "lint_corpus"
TOLERANCE = 1


@dataclass
class Score:
    required: int = 0
    found: int = 0
    clean: int = 0
    clean_with_error: int = 0
    clean_with_warning: int = 0
    unlabelled_errors: int = 0
    errors: int = 0
    missed: list[str] = field(default_factory=list)
    surprising: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.found / self.required if self.required else 1.0

    def lines(self) -> list[str]:
        return [
            f"labels found           {self.found} of {self.required} ({self.recall:.0%})",
            f"clean files with error {self.clean_with_error} of {self.clean}",
            f"clean files with warning or error {self.clean_with_warning} of {self.clean}",
            f"errors that no label explains {self.unlabelled_errors} of {self.errors}",
        ]


def measure(split: str, *, preview: bool = False) -> Score:
    labels = tomllib.loads((CORPUS / "labels.toml").read_text(encoding="utf-8"))["file"]
    settings = LintSettings(preview=preview, cache=False)
    result = lint_paths([CORPUS / split], settings)
    by_path: dict[str, list[Finding]] = {}
    for finding in result.findings:
        by_path.setdefault(finding.path, []).append(finding)
    score = Score()
    for entry in labels:
        if entry["split"] == split:
            _judge(entry, by_path.get((CORPUS / entry["path"]).as_posix(), []), score)
    return score


def _judge(entry: dict[str, Any], findings: list[Finding], score: Score) -> None:
    labels = entry.get("label", [])
    explained: set[int] = set()
    for label in labels:
        matching = [index for index, finding in enumerate(findings) if _matches(finding, label)]
        explained.update(matching)
        if label.get("required", True):
            score.required += 1
            score.found += bool(matching)
            if not matching:
                score.missed.append(f"{entry['path']} {label['spans']} {label['codes']}: {label.get('reason', '')}")
    errors = [finding for finding in findings if finding.severity == "error"]
    score.errors += len(errors)
    if not any(label.get("required", True) for label in labels):
        score.clean += 1
        score.clean_with_error += any(f.severity == "error" for i, f in enumerate(findings) if i not in explained)
        score.clean_with_warning += any(f.severity != "info" for i, f in enumerate(findings) if i not in explained)
    for index, finding in enumerate(findings):
        if index not in explained and finding.severity != "info":
            score.unlabelled_errors += finding.severity == "error"
            what = f"{finding.code} {finding.severity}: {finding.message[:90]}"
            score.surprising.append(f"{entry['path']}:{finding.line} {what}")


def _matches(finding: Finding, label: dict[str, Any]) -> bool:
    if finding.code not in label["codes"]:
        return False
    return any(first - TOLERANCE <= finding.line <= last + TOLERANCE for first, last in label["spans"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="train", choices=["train", "holdout"])
    parser.add_argument("--preview", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    score = measure(options.split, preview=options.preview)
    print("\n".join(score.lines()))
    if options.verbose and options.split == "train":
        print("\nmissed:", *score.missed, "\nnot labelled:", *score.surprising, sep="\n  ")


if __name__ == "__main__":
    main()
