"""The four reports, each against a golden file, and SARIF against the official schema."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import jsonschema
import pytest

from twice.lint import report
from twice.lint.file_facts import FileFacts, Notice, ProjectFacts
from twice.lint.finding import Finding, LintResult, Related, Severity
from twice.lint.report import sarif
from twice.lint.rules.rule import Rule

HERE = Path(__file__).parent


class BareAppend(Rule):
    """Rows are appended with nothing that recognises them.

    What it does: …
    """

    code: ClassVar[str] = "TW301"
    name: ClassVar[str] = "bare-append"
    severity: ClassVar[Severity] = "error"

    def check(self, file: FileFacts, project: ProjectFacts) -> list[Finding]:
        return []


APPEND = Finding(
    code="TW301",
    name="bare-append",
    severity="error",
    path="jobs/orders, daily.py",
    line=12,
    column=5,
    end_line=12,
    end_column=30,
    message="The second run adds every row again: order 1 once before, twice after.",
    fix="Replace the day: mode('overwrite') with replaceWhere.",
    declaration="@task(\n    strategy=Replace(by='day'),\n)",
    source_line="    df.write.mode('append').save(path)",
    related=(Related("dags/orders.py", 4, 9, "retries=3 repeats it without anybody asking"),),
)
CLOCK = replace(
    APPEND,
    code="TW101",
    name="clock-as-scope",
    severity="warning",
    line=20,
    column=2,
    end_line=21,
    end_column=4,
    message="Another day is read when it runs another day: 100 % of rows differ.",
    fix="Take the day as an argument.",
    declaration="",
    source_line="\twhere(jour == '日付' and today())",
    related=(),
)
AUDIT = replace(CLOCK, code="TW103", name="clock-audit-column", severity="info", path="z.sql", source_line="")
RESULT = LintResult(
    findings=(APPEND, CLOCK, AUDIT),
    notices=(Notice("broken.py", 3, "cannot be parsed: unexpected indent"),),
    files=4,
    suppressed=1,
    baselined=2,
    seconds=0.5,
    rules=(BareAppend(),),
)


@pytest.mark.parametrize(
    ("output", "golden"),
    [("text", "text.txt"), ("json", "json.json"), ("sarif", "sarif.json"), ("github", "github.txt")],
)
def test_each_report_is_what_was_agreed(output: str, golden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1.2.3")
    assert report.render(RESULT, output) == (HERE / "golden" / golden).read_text(encoding="utf-8")


def test_every_output_named_has_a_golden_file() -> None:
    assert set(report.OUTPUTS) == {"text", "json", "sarif", "github"}


def test_sarif_keeps_to_the_official_schema() -> None:
    schema = json.loads((HERE / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft7Validator(schema)
    for result in (RESULT, LintResult()):
        assert [error.message for error in validator.iter_errors(sarif.document(result))] == []


def test_the_schema_would_notice_a_wrong_document() -> None:
    schema = json.loads((HERE / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    wrong = sarif.document(RESULT)
    wrong["runs"][0]["results"][0]["level"] = "fatal"
    assert not jsonschema.Draft7Validator(schema).is_valid(wrong)


def test_the_caret_stands_under_the_finding_after_tabs_and_wide_letters() -> None:
    finding = replace(CLOCK, end_line=20, column=17, end_column=19)
    lines = report.render(LintResult(findings=(finding,), files=1)).splitlines()
    at = next(number for number, line in enumerate(lines) if "日付" in line)
    assert lines[at + 1] == "      | \t" + " " * 15 + "^^^^"


def test_a_very_long_line_is_cut_around_the_finding() -> None:
    source = "x" * 500 + "HERE" + "y" * 500
    finding = replace(APPEND, column=501, end_column=505, source_line=source)
    lines = report.render(LintResult(findings=(finding,), files=1)).splitlines()
    at = next(number for number, line in enumerate(lines) if "HERE" in line)
    assert len(lines[at]) < 140
    assert lines[at][lines[at + 1].index("^") : lines[at + 1].rindex("^") + 1] == "HERE"


def test_positions_beyond_the_line_do_no_harm() -> None:
    finding = replace(APPEND, column=900, end_column=2)
    assert "  fix: " in report.render(LintResult(findings=(finding,), files=1))


def test_nothing_found_says_so() -> None:
    assert report.render(LintResult(files=1)) == "Nothing found in 1 file.\n"


def test_statistics_count_each_rule() -> None:
    text = report.render(RESULT, statistics=True)
    assert "    1  TW101 clock-as-scope\n" in text


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_colour_is_for_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    pipe = io.StringIO()
    report.write(RESULT, pipe)
    assert pipe.getvalue() == report.render(RESULT)
    assert "\x1b[" in report.coloured(RESULT, 200)
    assert plain(report.coloured(RESULT, 200)).split() == report.render(RESULT).split()


def test_on_a_terminal_a_source_line_fits_and_its_caret_points_at_what_it_means() -> None:
    line = f"{'before = 1; ' * 10}df.write.mode('append').save(path){'; after = 1' * 10}"
    finding = replace(APPEND, source_line=line, column=121, end_column=155, end_line=APPEND.line)
    shown = plain(report.coloured(LintResult(findings=(finding,), files=1), 80)).splitlines()
    source, caret = next((one, two) for one, two in pairwise(shown) if "^" in two)
    assert len(source) < 80
    assert source[caret.index("^") : caret.rindex("^") + 1] == "df.write.mode('append').save(path)"


def test_a_github_command_escapes_what_would_end_it() -> None:
    first = report.render(RESULT, "github").splitlines()[0]
    assert first.startswith("::error file=jobs/orders%2C daily.py,line=12,")
    assert "%0AFix: " in first
