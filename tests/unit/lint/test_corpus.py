"""Recall and precision of the linter on the labelled corpus, scored by `scripts/measure_lint.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scripts import measure_lint as corpus

from twice.lint.finding import Finding, LintResult
from twice.lint.report import sarif
from twice.lint.rules import all_rules


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    """Preview rules included."""
    return [finding for split in corpus.SPLITS for finding in corpus.lint_split(split, preview=True)]


def score_of(findings: list[Finding], *splits: str) -> Any:
    return corpus.score([file for file in corpus.labelled_files() if file.split in splits], findings)


def test_the_corpus_is_large_and_half_of_it_is_clean() -> None:
    files = corpus.labelled_files()
    clean = sum(file.clean for file in files)
    assert len(files) >= 60
    assert 0.4 <= clean / len(files) <= 0.6
    assert 0.25 <= sum(file.split == "holdout" for file in files) / len(files) <= 0.45


def test_every_label_points_into_its_file() -> None:
    for file in corpus.labelled_files():
        lines = (corpus.CORPUS / file.path).read_text(encoding="utf-8").splitlines()
        for label in file.labels:
            assert all(1 <= first <= last <= len(lines) for first, last in label.spans), file.path


def test_every_file_of_the_corpus_is_labelled() -> None:
    labelled = {file.path for file in corpus.labelled_files()}
    present = {
        path.relative_to(corpus.CORPUS).as_posix()
        for split in ("train", "holdout")
        for path in (corpus.CORPUS / split).rglob("*")
        if path.suffix in (".py", ".sql", ".hql", ".ipynb")
    }
    assert labelled == present


def test_most_of_what_a_reader_marks_is_found(findings: list[Finding]) -> None:
    score = score_of(findings, "train", "holdout")
    assert score.recall >= 0.85, "\n".join((str(score), *score.missed))


def test_clean_files_are_left_in_peace(findings: list[Finding]) -> None:
    score = score_of(findings, "train", "holdout")
    assert score.clean_with_errors <= 0.05, "\n".join((str(score), *score.extra))


def test_files_the_rules_were_not_tuned_on_keep_the_bar_of_the_first_release(findings: list[Finding]) -> None:
    score = score_of(findings, "holdout")
    assert score.recall >= 0.70, "\n".join((str(score), *score.missed))
    assert score.clean_with_errors <= 0.15, "\n".join((str(score), *score.extra))


def test_every_finding_points_into_its_line_and_ends_after_it_begins(findings: list[Finding]) -> None:
    for finding in findings:
        assert 1 <= finding.column <= len(finding.source_line) + 1, finding
        assert (finding.line, finding.column) <= (finding.end_line, finding.end_column), finding


def test_the_findings_of_the_corpus_are_valid_sarif(findings: list[Finding]) -> None:
    schema = json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    document = sarif.document(LintResult(findings=tuple(findings), rules=all_rules()))
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(document)] == []
