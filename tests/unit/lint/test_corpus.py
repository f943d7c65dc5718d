"""Recall and precision of the linter on the labelled corpus.

`scripts/measure_lint.py` prints the same numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from twice.lint.finding import Finding, LintResult
from twice.lint.report import sarif
from twice.lint.rules import all_rules
from twice.lint.run import lint_paths
from twice.lint.settings import LintSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[2] / "lint_corpus"
_NEAR = 2
"""Lines a finding may stand away from its label: a call and the string it sends are one place to a reader."""


@dataclass(frozen=True)
class Label:
    spans: tuple[tuple[int, int], ...]
    codes: tuple[str, ...]
    reason: str
    required: bool

    def matches(self, finding: Finding) -> bool:
        near = any(first - _NEAR <= finding.line <= last + _NEAR for first, last in self.spans)
        return near and finding.code in self.codes


@dataclass(frozen=True)
class LabelledFile:
    path: str
    split: str
    clean: bool
    labels: tuple[Label, ...]


@dataclass
class Measure:
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
    data = tomllib.loads((FOLDER / "labels.toml").read_text(encoding="utf-8"))
    return [_file(entry) for entry in data["file"]]


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


def measured(files: Iterable[LabelledFile], findings: Iterable[Finding], root: Path) -> Measure:
    """How the findings (of the whole corpus below `root`) agree with the labels of `files`."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(Path(finding.path).relative_to(root).as_posix(), []).append(finding)
    measure = Measure()
    for file in files:
        _add(measure, file, by_path.get(file.path, []))
    return measure


def _add(measure: Measure, file: LabelledFile, findings: list[Finding]) -> None:
    for label in file.labels:
        if label.required:
            measure.wanted += 1
            if any(label.matches(finding) for finding in findings):
                measure.found += 1
            else:
                measure.missed.append(f"{file.path}:{label.spans[0][0]} {'|'.join(label.codes)} {label.reason}")
    for finding in findings:
        if finding.severity == "info":
            continue
        measure.reported += 1
        if any(label.matches(finding) for label in file.labels):
            measure.agreed += 1
        else:
            measure.extra.append(f"{file.path}:{finding.line} {finding.severity} {finding.code} {finding.message}")
    if file.clean:
        measure.clean += 1
        measure.accused += any(finding.severity == "error" for finding in findings)


def lint_corpus() -> list[Finding]:
    """Each split is a project of its own, as a user would give it; preview rules included."""
    settings = LintSettings(cache=False, preview=True, jobs=1)
    found: list[Finding] = []
    for split in ("train", "holdout"):
        found.extend(lint_paths([FOLDER / split], settings).findings)
    return found


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return lint_corpus()


def measure_of(findings: list[Finding], *splits: str) -> Measure:
    return measured([file for file in labelled_files() if file.split in splits], findings, FOLDER)


def test_the_corpus_is_large_and_half_of_it_is_clean() -> None:
    files = labelled_files()
    clean = sum(file.clean for file in files)
    assert len(files) >= 60
    assert 0.4 <= clean / len(files) <= 0.6
    assert 0.25 <= sum(file.split == "holdout" for file in files) / len(files) <= 0.45


def test_every_label_points_into_its_file() -> None:
    for file in labelled_files():
        lines = (FOLDER / file.path).read_text(encoding="utf-8").splitlines()
        for label in file.labels:
            assert all(1 <= first <= last <= len(lines) for first, last in label.spans), file.path


def test_every_file_of_the_corpus_is_labelled() -> None:
    labelled = {file.path for file in labelled_files()}
    present = {
        path.relative_to(FOLDER).as_posix()
        for split in ("train", "holdout")
        for path in (FOLDER / split).rglob("*")
        if path.suffix in (".py", ".sql", ".hql", ".ipynb")
    }
    assert labelled == present


def test_most_of_what_a_reader_marks_is_found(findings: list[Finding]) -> None:
    measure = measure_of(findings, "train", "holdout")
    assert measure.recall >= 0.85, "\n".join((str(measure), *measure.missed))


def test_clean_files_are_left_in_peace(findings: list[Finding]) -> None:
    measure = measure_of(findings, "train", "holdout")
    assert measure.clean_with_errors <= 0.05, "\n".join((str(measure), *measure.extra))


def test_files_the_rules_were_not_tuned_on_keep_the_bar_of_the_first_release(findings: list[Finding]) -> None:
    measure = measure_of(findings, "holdout")
    assert measure.recall >= 0.70, "\n".join((str(measure), *measure.missed))
    assert measure.clean_with_errors <= 0.15, "\n".join((str(measure), *measure.extra))


def test_every_finding_points_into_its_line_and_ends_after_it_begins(findings: list[Finding]) -> None:
    for finding in findings:
        assert 1 <= finding.column <= len(finding.source_line) + 1, finding
        assert (finding.line, finding.column) <= (finding.end_line, finding.end_column), finding


def test_the_findings_of_the_corpus_are_valid_sarif(findings: list[Finding]) -> None:
    schema = json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    document = sarif.document(LintResult(findings=tuple(findings), rules=all_rules()))
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(document)] == []
