"""The ledger through the command line: SQLite and PostgreSQL, looked after, lost and made anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.postgres_server import PASSWORD, QUOTED_PASSWORD, PostgresServer

from twice.ledgers.schema import HEAD

from .conftest import TOML, Shop

RUN = ("run", "revenue_daily", "--date", "2026-06-09")


def on_postgres(shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_PASSWORD", QUOTED_PASSWORD)
    referred = url.replace(QUOTED_PASSWORD, "${env:LEDGER_PASSWORD}")
    assert referred != url
    shop.write("twice.toml", TOML.replace("[spark]", f'ledger = "{referred}"\n[spark]'))


def lose_the_ledger(shop: Shop) -> None:
    for file in (shop.root / ".twice").glob("ledger.db*"):
        file.unlink()


def test_a_deleted_ledger_is_rebuilt_from_the_tables_and_the_next_run_finds_its_slice_published(stocked: Shop) -> None:
    stocked.call(*RUN)
    stocked.call("restate", *RUN[1:])
    assert stocked.call("ledger", "check").out == "the ledger says what the tables say\n"
    lose_the_ledger(stocked)
    missed = stocked.call("ledger", "check")
    assert missed.code == 1
    assert "revenue_daily[2026-06-09]: the table holds generation 2, the ledger knows of 0" in missed.out
    assert "to put it right: twice ledger rebuild" in missed.out
    assert stocked.call("ledger", "rebuild").out.splitlines()[0] == "revenue_daily: 1 slices"
    assert stocked.call("ledger", "check").code == 0
    again = stocked.call(*RUN)
    assert again.code == 0, again.err
    assert "revenue_daily[2026-06-09]: already published (generation 2" in again.out
    assert "why: same code, same inputs" in again.out


def test_a_ledger_in_postgresql_serves_every_command_and_shows_no_password(
    stocked: Shop, database: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_postgres(stocked, database, monkeypatch)
    assert f"migrated from nothing to schema {HEAD}" in stocked.call("ledger", "migrate").out
    assert f"the ledger is up to date (schema {HEAD})" in stocked.call("ledger", "migrate").out
    told = [stocked.call(*RUN), stocked.call(*RUN), stocked.call("status"), stocked.call("history", "revenue_daily")]
    assert [answer.code for answer in told] == [0, 0, 0, 0], told
    assert "already published (generation 1, 2 rows" in told[1].out
    assert "revenue_daily[2026-06-09]" in told[2].out
    assert not (stocked.root / ".twice" / "ledger.db").exists()
    postgres.drop(database)
    gone = stocked.call(*RUN)
    assert gone.code == 4
    assert "the ledger's database or user does not exist" in gone.err
    postgres.execute(f'CREATE DATABASE "{database.rpartition("/")[2]}"')
    told += [gone, stocked.call("ledger", "rebuild"), stocked.call(*RUN), stocked.call("ledger", "export")]
    assert "already published (generation 1" in told[-2].out
    told += [stocked.call("config", "show"), stocked.call("doctor", "--help")]
    for answer in told:
        for secret in (PASSWORD, QUOTED_PASSWORD):
            assert secret not in answer.out + answer.err


def test_an_export_is_json_lines_and_a_file_of_it_is_private(stocked: Shop, tmp_path: Path) -> None:
    stocked.call(*RUN)
    header, *rows = [json.loads(line) for line in stocked.call("ledger", "export").out.splitlines()]
    assert header == {"ledger": 1, "schema": HEAD}
    assert [row["state"] for row in rows if row["table"] == "attempts"] == ["published"]
    assert [(row["label"], row["generation"]) for row in rows if row["table"] == "runs"] == [("2026-06-09", 1)]
    file = tmp_path / "ledger.jsonl"
    assert stocked.call("ledger", "export", "--to", str(file)).out == f"{len(rows)} rows written to {file}\n"
    assert [json.loads(line) for line in file.read_text().splitlines()] == [header, *rows]
    assert file.stat().st_mode & 0o777 == 0o600
    assert stocked.call("ledger", "export", "--to", str(tmp_path / "no" / "such")).code == 2
