"""The ledger through the command line: SQLite and PostgreSQL, looked after, lost and rebuilt."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.postgres_server import PASSWORD, QUOTED_PASSWORD, PostgresServer

from twice.ledgers.database.schema import HEAD

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
    assert stocked.call("ledger", "check").out == "the ledger agrees with the tables\n"
    lose_the_ledger(stocked)
    missed = stocked.call("ledger", "check")
    assert missed.code == 1
    assert "revenue_daily[2026-06-09]: the table holds generation 2, the ledger knows of 0" in missed.out
    assert "to fix it: twice ledger rebuild" in missed.out
    assert stocked.call("ledger", "rebuild").out.splitlines()[0] == "revenue_daily: 1 slice"
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
    answers = [stocked.call(*RUN), stocked.call(*RUN)]
    answers += [stocked.call("status", "revenue_daily"), stocked.call("history", "revenue_daily")]
    assert [answer.code for answer in answers] == [0, 0, 0, 0], answers
    assert "already published (generation 1, 2 rows" in answers[1].out
    assert "revenue_daily[2026-06-09]" in answers[2].out
    assert not (stocked.root / ".twice" / "ledger.db").exists()
    postgres.drop(database)
    gone = stocked.call(*RUN)
    assert gone.code == 4
    assert "the ledger's database or user does not exist" in gone.err
    postgres.execute(f'CREATE DATABASE "{database.rpartition("/")[2]}"')
    answers += [gone, stocked.call("ledger", "rebuild"), stocked.call(*RUN), stocked.call("ledger", "export")]
    assert "already published (generation 1" in answers[-2].out
    answers += [stocked.call("config", "show"), stocked.call("doctor", "--help")]
    for answer in answers:
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


WITH_EFFECT = """
from pathlib import Path

from pyspark.sql import functions as F
from twice import Daily, call, read, replace, task


def announce(result, key):
    with Path("{received}").open("a") as log:
        log.write(f"{{result.slice}} {{key}}\\n")


@task("shop.revenue_daily", scope=Daily("order_date", start="2026-01-01"),
      inputs={{"orders": read("shop.orders", by="order_date")}}, write=replace(), effects=[call(announce, keyed=True)])
def revenue_daily(orders):
    return orders.groupBy("order_date").agg(F.sum("amount").alias("revenue"))
"""


def make_old(path: Path) -> None:
    """The ledger's rows as they were before it knew whose they are."""
    tables = ("attempts", "slices", "leases", "runs", "effects", "proofs")
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in tables:
            connection.execute(f"UPDATE twice_{table} SET task = substr(task, 1, instr(task, '#') - 1)")
        connection.execute("DELETE FROM twice_tasks")


def test_two_warehouses_on_one_ledger_publish_and_send_each_for_itself_and_go_on_after_a_move(
    stocked: Shop, tmp_path: Path
) -> None:
    received = tmp_path / "received"
    stocked.write("pipelines/revenue.py", WITH_EFFECT.format(received=received))
    stocked.write("twice.toml", f'{TOML}\n[profiles.prod]\nwarehouse = "{tmp_path}/prod"\n')
    shutil.copytree(stocked.root / "warehouse" / "shop" / "orders", tmp_path / "prod" / "shop" / "orders")
    for profile in ([], ["--profile", "prod"]):
        assert "revenue_daily[2026-06-09]: published (generation 1" in stocked.call(*RUN, *profile).out
        again = stocked.call(*RUN, *profile)
        assert "already published (generation 1" in again.out and "why: same code, same inputs" in again.out
        assert "recreated" not in again.out + again.err
        assert stocked.call("status", "revenue_daily", *profile).out.count("revenue_daily[2026-06-09]") == 1
    lines = received.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["2026-06-09", "2026-06-09"] and len(set(lines)) == 2

    moved = Shop(stocked.root.rename(tmp_path / "moved"))
    for profile in ([], ["--profile", "prod"]):
        assert moved.call(*RUN, *profile).code == 0
        assert len(moved.call("history", "revenue_daily", "--output", "json", *profile).data["attempts"]) == 3
    assert received.read_text().splitlines() == lines


def test_the_records_of_an_older_ledger_are_given_to_the_warehouses_whose_commits_name_them(
    stocked: Shop, tmp_path: Path
) -> None:
    received = tmp_path / "received"
    stocked.write("pipelines/revenue.py", WITH_EFFECT.format(received=received))
    stocked.call(*RUN)
    stocked.call("restate", *RUN[1:])
    make_old(stocked.root / ".twice" / "ledger.db")
    status = stocked.call("status")
    assert "not shown: old records of revenue_daily, from before the ledger kept environments apart" in status.out
    listed = stocked.call("ledger", "unassigned")
    assert "revenue_daily: 2 attempts, 1 slice, 1 effect" in listed.out and "next: twice ledger check" in listed.out
    assert stocked.call("ledger", "check").out == "the ledger agrees with the tables\n"
    assert stocked.call("ledger", "unassigned").out == "no record is unassigned: each belongs to an environment\n"
    assert "already published (generation 2" in stocked.call(*RUN).out
    stocked.call("restate", *RUN[1:])
    assert len(received.read_text().splitlines()) == 1
