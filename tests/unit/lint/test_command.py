"""`twice lint` from the command line: exit codes, outputs, options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from twice.cli.lint import lint

BARE = "INSERT INTO mart.sales SELECT * FROM staging.sales;\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = typer.Typer()
    made.command()(lint)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "load.sql").write_text(BARE)
    return tmp_path / "src"


def run(app: typer.Typer, *options: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(option) for option in options])
    return result.exit_code, result.output


def test_findings_exit_with_one_and_are_listed(app: typer.Typer, folder: Path) -> None:
    code, output = run(app, folder)
    assert code == 1
    assert "TW302" in output


def test_a_clean_folder_exits_with_nought(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "clean.sql").write_text("SELECT 1;\n")
    assert run(app, tmp_path / "clean.sql")[0] == 0


def test_information_alone_does_not_fail(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "i.sql").write_text("CREATE TABLE t AS SELECT id, now() AS loaded_at FROM s;\n")
    code, output = run(app, tmp_path / "i.sql")
    assert code == 0
    assert "TW103" in output


def test_a_wrong_path_or_code_exits_with_two(app: typer.Typer, folder: Path) -> None:
    assert run(app, folder / "nothing.sql")[0] == 2
    assert run(app, folder, "--select", "XY1")[0] == 2
    assert run(app, "--explain", "TW999")[0] == 2


def test_json_has_every_field_of_a_finding(app: typer.Typer, folder: Path) -> None:
    code, output = run(app, folder, "--output", "json")
    assert code == 1
    found = json.loads(output)["findings"][0]
    fields = {"code", "name", "family", "severity", "path", "line", "column", "message", "fix", "related"}
    assert fields <= found.keys()
    assert (found["code"], found["family"], found["line"], found["column"]) == ("TW302", "append", 1, 1)


@pytest.mark.parametrize("output", ["text", "json", "sarif", "github"])
def test_every_report_names_the_finding(app: typer.Typer, folder: Path, output: str) -> None:
    assert "TW302" in run(app, folder, "--output", output)[1]


def test_explaining_a_rule_prints_its_page(app: typer.Typer) -> None:
    code, output = run(app, "--explain", "bare-insert")
    assert code == 0
    assert "Why it breaks a re-run" in output


def test_a_baseline_is_written_and_then_accepted(app: typer.Typer, folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    assert run(app, folder, "--write-baseline", "--baseline", kept)[0] == 0
    assert run(app, folder, "--baseline", kept)[0] == 0
    (folder / "new.sql").write_text("UPDATE stock SET qty = qty - 1;\n")
    assert run(app, folder, "--baseline", kept)[0] == 1


def test_statistics_count_by_rule(app: typer.Typer, folder: Path) -> None:
    code, output = run(app, folder, "--statistics")
    assert code == 1
    assert "1  TW302" in output


def test_the_least_severity_decides_the_exit_code(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "w.sql").write_text("CREATE TABLE t AS SELECT first(x) AS x FROM s;\n")
    assert run(app, tmp_path / "w.sql")[0] == 1
    assert run(app, tmp_path / "w.sql", "--min-severity", "error")[0] == 0
