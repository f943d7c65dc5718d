"""The page of a proof, its JUnit XML and its three files: read by parsers, as a browser or a CI server would."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from twice.cli.prove import print_proof
from twice.core.results.proof import Cause, Difference, Proof, RowPair, SideEffect, Trial, TrialResult
from twice.proof.report import headline, html, junit, write_report

AT = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)
EVIL = '<script>alert("1")</script>'
CLOCK = Cause("current_timestamp", ("loaded_at",), "current_timestamp reaches loaded_at", "Drop the column.")
DIFFERENCE = Difference(
    ("loaded_at",),
    400,
    400,
    pairs=(
        RowPair({"id": 1, "name": EVIL, "loaded_at": "12:00:01"}, {"id": 1, "name": EVIL, "loaded_at": "12:00:09"}),
    ),
    causes=(CLOCK,),
)


def same(name: str) -> Trial:
    return Trial(name, TrialResult.SAME, "already published", seconds=1.5)


SOUND = Proof("revenue_daily", "2026-06-09", "ab12", AT, (same("twice"), same("row-order")), 3.0)
BROKEN = Proof(
    "stamped",
    "2026-06-09",
    "cd34",
    AT,
    (
        Trial("twice", TrialResult.CHANGED, "computed again on purpose", DIFFERENCE, 2.0),
        Trial("row-order", TrialResult.NOT_APPLICABLE, "it reads no input"),
    ),
    2.0,
    ("a note",),
)


class Page(HTMLParser):
    """Tags must be closed in their order; what is found is kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] != "style" and data.strip():
            self.cells.append((self.open[-1], data.strip()))

    def having(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name)) is not None]


def test_the_matrix_has_a_row_for_each_task_and_a_column_for_each_scenario() -> None:
    page = Page(html([SOUND, BROKEN]))
    cells = [attrs for tag, attrs in page.tags if tag == "td" and "data-scenario" in attrs]
    assert [(attrs["data-scenario"], attrs["class"]) for attrs in cells] == [
        *(("twice", "same"), ("row-order", "same")),
        *(("twice", "changed"), ("row-order", "none")),
    ]


def test_each_result_is_shown_by_a_sign_of_its_own_beside_its_word() -> None:
    page = Page(html([SOUND, BROKEN]))
    for sign, word in (("✓", "same"), ("–", "not applicable")):
        at = [number for number, cell in enumerate(page.cells) if cell == ("span", sign)]
        assert any(word in page.cells[number + 1][1] for number in at)
    assert ("a", "CHANGED") in page.cells
    assert ("span", "✕") in page.cells


def test_a_changed_cell_leads_to_its_difference_with_rows_cause_and_fix() -> None:
    page = Page(html([BROKEN]))
    (link,) = page.having("href")
    assert link.removeprefix("#") in page.having("id")
    for words in ("400 rows differ in loaded_at", CLOCK.why, CLOCK.fix, "12:00:01", "12:00:09", "it reads no input"):
        assert words in page.text
    differing = [attrs for tag, attrs in page.tags if attrs.get("class") == "differs"]
    assert len(differing) == 1


def test_what_stands_in_a_table_is_shown_and_never_carried_out() -> None:
    page = Page(html([BROKEN]))
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(EVIL) == 2


def test_the_page_needs_nothing_but_itself() -> None:
    page = Page(html([SOUND, BROKEN]))
    assert {"link", "script", "img", "iframe"}.isdisjoint(tag for tag, _ in page.tags)
    assert page.having("src") == []
    assert all(value.startswith("#") for value in page.having("href"))
    assert "url(" not in page.text and "@import" not in page.text
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.having("content")


def test_the_page_follows_the_readers_colours_and_a_phones_width() -> None:
    text = html([SOUND])
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media (max-width: 44rem)" in text
    assert "width=device-width, initial-scale=1" in text


def test_a_row_that_is_not_there_is_shown_as_such() -> None:
    added = Difference((), 0, 3, doubled=2, pairs=(RowPair(None, {"id": 1}),))
    trial = Trial("twice", TrialResult.CHANGED, "run again", added)
    text = Page(html([Proof("t", "x", "h", AT, (trial,), 1.0)])).text
    assert "rows: 3 more than after one clean run, 2 of them copies" in text
    assert "no such row" in text


def test_a_page_of_nothing_says_so() -> None:
    assert "Nothing was proved." in Page(html([])).text


def test_junit_has_a_failure_for_what_changed_and_skips_what_was_not_applicable() -> None:
    root = Xml.fromstring(junit([SOUND, BROKEN]))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "1", "1")
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["revenue_daily[2026-06-09]", "stamped[2026-06-09]"]
    (failure,) = root.iter("failure")
    assert failure.get("message") == "400 rows differ in loaded_at"
    assert "likely: current_timestamp reaches loaded_at" in (failure.text or "")
    (skipped,) = root.iter("skipped")
    assert skipped.get("message") == "it reads no input"


def test_junit_stays_xml_whatever_stands_in_the_rows() -> None:
    odd = Difference(("name",), 1, 1, pairs=(RowPair({"name": "a\x00b"}, {"name": "]]><c>"}),))
    text = junit([Proof("t", "x", "h", AT, (Trial("twice", TrialResult.CHANGED, "run again", odd),), 1.0)])
    (failure,) = Xml.fromstring(text).iter("failure")
    assert "name: clean a�b, twice ]]><c>" in (failure.text or "")


def test_a_headline_counts_one_row_as_one() -> None:
    assert headline(Trial("twice", TrialResult.CHANGED, "", Difference(("a", "b"), 1, 1))) == "1 row differs in a, b"
    assert headline(Trial("twice", TrialResult.CHANGED, "", Difference(("a",), 0, 0))) == "differs in a"
    assert headline(Trial("twice", TrialResult.CHANGED, "it calls out", Difference((), 0, 0))) == "it calls out"


def test_a_report_is_three_files_and_a_second_one_takes_their_place(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    write_report([BROKEN], folder)
    paths = write_report([SOUND], folder)
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "proof.html", "proof.json"]
    assert [proof["task"] for proof in json.loads(paths[0].read_text())["proofs"]] == ["revenue_daily"]
    assert "stamped" not in paths[1].read_text() + paths[2].read_text()


LOOSE = replace(
    SOUND, beside=(SideEffect("file", f"/home/{EVIL}", "tasks.py:3"),), not_blocked=("unix-domain sockets",)
)


def test_what_was_not_blocked_is_in_the_text_the_page_and_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_proof(LOOSE)
    assert "\nnot blocked: unix-domain sockets\n" in capsys.readouterr().out
    assert "Not blocked: unix-domain sockets" in Page(html([LOOSE])).text
    write_report([LOOSE], tmp_path)
    (written,) = json.loads((tmp_path / "proof.json").read_text())["proofs"]
    assert written["not_blocked"] == ["unix-domain sockets"]
    assert written["beside"] == [{"kind": "file", "what": f"/home/{EVIL}", "where": "tasks.py:3"}]


def test_a_plan_that_twice_run_refuses_is_a_failure_of_its_own_in_junit_and_on_the_page() -> None:
    refused = replace(SOUND, refused=(f"drop_duplicates reaches {EVIL}",))
    root = Xml.fromstring(junit([SOUND, refused]))
    assert (root.get("tests"), root.get("failures")) == ("5", "1")
    assert [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None] == ["guard"]
    assert f"refuses this plan: drop_duplicates reaches {EVIL}" in Page(html([refused])).text
