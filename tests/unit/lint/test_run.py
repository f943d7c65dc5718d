"""The whole run: files, silences, baselines, the cache, and files that cannot be read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from twice.errors import DeclarationError, UsageError
from twice.lint import baseline, cache
from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.reader import read
from twice.lint.run import lint_paths, lint_text
from twice.lint.settings import LintSettings, from_pyproject, from_table

DEEP = "x = " + "(" * 150 + "1" + ")" * 150 + "\n"
LONG = "x = " + " + ".join(["1"] * 5000)
BARE = "INSERT INTO mart.sales SELECT * FROM staging.sales;\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def project(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def test_one_broken_and_one_enormous_file_do_not_stop_the_run(tmp_path: Path) -> None:
    folder = project(tmp_path, broken__py="def (:\n", good__sql=BARE)
    (folder / "huge.sql").write_bytes(b"SELECT 1;\n" * 200_000)
    (folder / "binary.sql").write_bytes(b"\0\1\2" * 100)
    (folder / "latin.sql").write_bytes("-- größe\n".encode("latin-1") + BARE.encode())
    result = lint_paths([folder], LintSettings())
    assert sorted(Path(f.path).name for f in result.findings) == ["good.sql", "latin.sql"]
    assert sorted(Path(n.path).name for n in result.notices) == ["binary.sql", "broken.py", "huge.sql"]
    assert result.exit_code == 1


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        lint_paths([tmp_path / "nothing"], LintSettings())


@pytest.mark.parametrize(
    "line",
    [
        "-- twice: ignore[TW302] loaded once by hand\n" + BARE,
        BARE.strip() + " -- twice: ignore[TW302] loaded once\n",
        "-- twice: ignore[TW3] family\n" + BARE,
        "-- twice: ignore-file[TW302] archive\n\n\n" + BARE,
    ],
)
def test_a_comment_silences_the_finding_on_its_line_or_the_next(line: str) -> None:
    assert lint_text("x.sql", line, LintSettings()) == []


def test_a_silence_for_another_rule_silences_nothing_and_is_reported() -> None:
    found = lint_text("x.sql", "-- twice: ignore[TW501] no\n" + BARE, LintSettings())
    assert [f.code for f in found] == ["TW001", "TW302"]


def test_an_unused_silence_is_not_reported_when_its_rule_did_not_run() -> None:
    text = "-- twice: ignore[TW501] no\n" + BARE
    assert [f.code for f in lint_text("x.sql", text, LintSettings(select=("TW302", "TW0")))] == ["TW302"]


def test_selection_is_by_prefix_and_ignoring_wins() -> None:
    text = BARE + "UPDATE stock SET qty = qty - 1;\n"
    assert {f.code for f in lint_text("x.sql", text, LintSettings())} == {"TW302", "TW506"}
    assert {f.code for f in lint_text("x.sql", text, LintSettings(select=("TW3",)))} == {"TW302"}
    assert {f.code for f in lint_text("x.sql", text, LintSettings(ignore=("TW30",)))} == {"TW506"}


def test_rules_in_preview_run_only_when_asked_for() -> None:
    text = "CREATE TABLE t AS SELECT * FROM s LIMIT 10;\n"
    assert lint_text("x.sql", text, LintSettings()) == []
    assert [f.code for f in lint_text("x.sql", text, LintSettings(preview=True))] == ["TW703"]
    assert [f.code for f in lint_text("x.sql", text, LintSettings(select=("TW703",)))] == ["TW703"]


def test_the_least_severity_leaves_out_what_is_below() -> None:
    text = "CREATE TABLE t AS SELECT now() AS loaded_at, first(x) AS x FROM s;\n"
    assert {f.severity for f in lint_text("x.sql", text, LintSettings())} == {"info", "warning"}
    assert {f.severity for f in lint_text("x.sql", text, LintSettings(min_severity="warning"))} == {"warning"}


def test_a_baseline_accepts_each_finding_once_wherever_its_line_moves(tmp_path: Path) -> None:
    folder = project(tmp_path, load__sql=BARE)
    kept = tmp_path / "baseline.json"
    assert baseline.write(kept, lint_paths([folder], LintSettings()).findings) == 1
    (folder / "load.sql").write_text("\n\n" + BARE)
    result = lint_paths([folder], LintSettings(), kept)
    assert (result.findings, result.baselined) == ((), 1)
    (folder / "load.sql").write_text(BARE + BARE)
    result = lint_paths([folder], LintSettings(), kept)
    assert (len(result.findings), result.baselined) == (1, 1)


def test_a_baseline_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(UsageError, match="not a baseline"):
        baseline.read(tmp_path / "b.json")


def test_the_second_run_reads_facts_from_the_cache_and_finds_the_same(tmp_path: Path) -> None:
    folder = project(
        tmp_path, load__sql=BARE, job__py="from datetime import date\n\ndef run(day=date.today()):\n    pass\n"
    )
    first = lint_paths([folder], LintSettings())
    stored = list((tmp_path / "cache").rglob("*.json"))
    assert len(stored) == 2
    assert lint_paths([folder], LintSettings()).findings == first.findings


def test_facts_survive_the_cache_unchanged() -> None:
    text = (
        "import psycopg2\nfrom airflow import DAG\n\ndef load(cur, conn):\n    try:\n"
        '        cur.execute("MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN UPDATE SET n = a.n + b.n")\n'
        "    except Exception:\n        pass\n    conn.commit()\n"
        "    # twice: ignore[TW101] x\n    df.dropDuplicates(['a'])\n"
    )
    facts = read("job.py", text, ReadContext())
    name = cache.key("job.py", text, "pipeline", "")
    cache.store(name, facts)
    assert cache.load(name) == facts


def test_a_damaged_cache_entry_is_read_again(tmp_path: Path) -> None:
    folder = project(tmp_path, load__sql=BARE)
    first = lint_paths([folder], LintSettings()).findings
    for entry in (tmp_path / "cache").rglob("*.json"):
        entry.write_text('["no facts"]')
    assert lint_paths([folder], LintSettings()).findings == first


@pytest.mark.timeout(60)
def test_many_files_are_read_in_parallel_and_in_a_stable_order(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(60):
        (folder / f"f{number:03}.sql").write_text(BARE)
    one = lint_paths([folder], LintSettings(jobs=1, cache=False))
    two = lint_paths([folder], LintSettings(jobs=2, cache=False))
    assert one.findings == two.findings
    assert [f.path for f in two.findings] == sorted(f.path for f in two.findings)


def test_settings_come_from_the_nearest_pyproject_and_wrong_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.twice.lint]\nignore = ["TW103"]\nupsert-targets = ["p"]\n')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert from_pyproject(inner) == LintSettings(ignore=("TW103",), upsert_targets=("p",))
    with pytest.raises(DeclarationError, match="unknown lint setting 'ignores'"):
        from_table({"ignores": []})
    with pytest.raises(DeclarationError, match="min_severity must be one of"):
        from_table({"min-severity": "fatal"})


def test_a_deeply_nested_file_is_a_notice_or_is_read_but_never_a_crash(tmp_path: Path) -> None:
    folder = project(tmp_path, deep__py=DEEP, sum__py=LONG)
    started = time.monotonic()
    lint_paths([folder], LintSettings(cache=False))
    assert time.monotonic() - started < 4


def test_folders_of_environments_and_packages_are_not_read(tmp_path: Path) -> None:
    folder = project(tmp_path, load__sql=BARE)
    (folder / ".venv" / "x").mkdir(parents=True)
    (folder / ".venv" / "x" / "y.sql").write_text(BARE)
    assert lint_paths([folder], LintSettings()).files == 1
