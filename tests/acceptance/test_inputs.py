"""Files and values as inputs, and tables that are not watched: real Spark, real Delta, through the command line."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import TOML, Shop

import twice
from twice.core.failure.failpoints import Point, armed
from twice.wiring.open_project import open_project

pytestmark = pytest.mark.timeout(240)

PAGE = (Path(__file__).parents[2] / "docs/inputs.md").read_text()
LOAD = re.findall(r"^```python title=\S+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]

SQL = """
from twice import Daily, param, read, replace, sql_task

big = sql_task("pipelines/big.sql", "shop.big", write=replace(), scope=Daily("order_date", start="2026-01-01"),
               inputs={"landing": read.files("landing", format="csv", options={"header": True}, by="order_date",
                                             schema="order_id BIGINT, order_date DATE, amount DOUBLE"),
                       "least": param.env("TWICE_TEST_LEAST", default="5")})
"""


@pytest.fixture
def landing(tmp_path: Path, spark: Any) -> Shop:
    made = Shop(tmp_path / "shop")
    made.write("twice.toml", TOML)
    made.write("pipelines/orders.py", LOAD)
    made.write("config/fx.json", '{"usd": 2}')
    for day, amount in (("2026-06-09", 10), ("2026-06-10", 7)):
        made.write(f"landing/{day}/a.csv", f"order_id,order_date,amount\n1,{day},{amount}\n")
    return made


def amounts(spark: Any, shop: Shop, table: str, column: str) -> list[float]:
    frame = spark.read.format("delta").load(str(shop.warehouse / "shop" / table))
    return sorted(row[0] for row in frame.select(column).collect())


def test_a_day_of_files_is_loaded_once_and_again_when_its_files_or_values_change(landing: Shop, spark: Any) -> None:
    first = landing.call("backfill", "orders", "--from", "2026-06-09", "--to", "2026-06-10")
    assert first.code == 0, first.err
    assert amounts(spark, landing, "orders", "amount_eur") == [14.0, 20.0]
    assert "already published" in landing.call("run", "orders", "--date", "2026-06-09").out
    landing.write("landing/2026-06-09/b.csv", "order_id,order_date,amount\n2,2026-06-09,1\n")
    shown = landing.call("plan", "orders", "--date", "2026-06-09").out
    assert "would be computed (its files changed: landing/2026-06-09/b.csv is new)" in shown
    assert "reads input files landing/2026-06-09/*.csv\n" in shown
    assert "reads param fx (config/fx.json)\n" in shown
    stale = ("backfill", "orders", "--from", "2026-06-09", "--to", "2026-06-10", "--only", "stale")
    planned = landing.call(*stale, "--dry-run").out
    assert "its files changed: landing/2026-06-09/b.csv is new" in planned
    assert "2026-06-10 " not in planned
    assert landing.call(*stale).code == 0
    assert amounts(spark, landing, "orders", "amount_eur") == [2.0, 14.0, 20.0]
    landing.write("config/fx.json", '{"usd": 3}')
    again = landing.call("run", "orders", "--date", "2026-06-10")
    assert "why: its param fx (config/fx.json) changed" in again.out
    assert amounts(spark, landing, "orders", "amount_eur") == [2.0, 20.0, 21.0]
    with open_project(landing.root) as opened:
        frame = opened.project.task("orders").preview("2026-06-10", project=landing.root)  # type: ignore[attr-defined]
        assert [row.amount_eur for row in frame.collect()] == [21.0]
    missing = landing.call("run", "orders", "--date", "2026-06-11")
    assert missing.code == 1
    assert "orders[2026-06-11]: the input landing has no file: landing/2026-06-11/*.csv. The table is un" in missing.err
    drawn = landing.call("graph").out
    assert "reads files landing/{ds}/*.csv" in drawn
    assert "reads param fx (config/fx.json)" in drawn
    assert (
        'files_landing__ds____csv[/"landing/{ds}/*.csv"/] --> task_orders' in landing.call("graph", "-o", "mermaid").out
    )


def test_the_page_on_inputs_shows_what_happens(landing: Shop) -> None:
    landing.write("landing/2026-06-09/b.csv", "order_id,order_date,amount\n2,2026-06-09,1\n")
    landing.write("late.csv", "order_id,order_date,amount\n3,2026-06-09,1\n")
    landing.write("corrected.json", '{"usd": 3}')
    (shown,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    steps = [step.splitlines() for step in shown.split("$ ")[1:]]
    assert len(steps) == 7
    for command, *lines in steps:
        program, *words = command.split()
        if program == "cp":
            place = landing.root / words[1]
            shutil.copy(landing.root / words[0], place / words[0] if place.is_dir() else place)
            continue
        said, lines = landing.call(*words).out.splitlines(), [line for line in lines if line != "…"]
        assert [line for line in said if line in lines] == lines, said


def test_a_query_reads_files_by_their_name_and_params_as_values(
    landing: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing.write("pipelines/sql.py", SQL)
    landing.write("pipelines/big.sql", "SELECT landing.* FROM landing WHERE amount >= CAST(:least AS DOUBLE)")
    monkeypatch.delenv("TWICE_TEST_LEAST", raising=False)
    run = ("run", "big", "--date", "2026-06-09")
    first = landing.call(*run)
    assert first.code == 0, first.err
    assert amounts(spark, landing, "big", "amount") == [10.0]
    assert "already published" in landing.call(*run).out
    monkeypatch.setenv("TWICE_TEST_LEAST", "50")
    assert "its param least (environment TWICE_TEST_LEAST) changed" in landing.call(*run).out
    assert amounts(spark, landing, "big", "amount") == []
    landing.write("pipelines/big.sql", "SELECT * FROM landing")
    wrong = landing.call(*run)
    assert (wrong.code, "the param least is declared, but the SQL does not name :least" in wrong.err) == (2, True)


ZONED = """
from twice import Daily, read, replace, task

@task("shop.zoned", scope=Daily("order_date", start="2026-01-01"), write=replace(),
      inputs={"orders": read("shop.orders", by="order_date"), "zones": read("dim.zones"WATCH)})
def zoned(orders, zones):
    return orders.join(zones, "region")
"""


def test_a_table_that_is_not_watched_makes_no_slice_stale(stocked: Shop, spark: Any) -> None:
    """Not even where it was watched when the slice was published. It is still pinned, recorded, and shown."""

    def put_zones(name: str) -> None:
        frame = spark.createDataFrame([("EU", name), ("US", name)], "region STRING, zone STRING").coalesce(1)
        frame.write.format("delta").mode("overwrite").save(str(stocked.warehouse / "dim" / "zones"))

    def declare(watch: str) -> None:
        stocked.write("pipelines/zoned.py", ZONED.replace("WATCH", watch))

    run = ("run", "zoned", "--date", "2026-06-09")
    put_zones("one")
    declare("")
    assert stocked.call(*run).code == 0
    put_zones("two")
    assert "would be computed (its inputs changed)" in stocked.call("plan", "zoned", "--date", "2026-06-09").out
    declare(", watch=False")
    shown = stocked.call("plan", "zoned", "--date", "2026-06-09").out
    assert "would stay as it is (same code, same inputs)" in shown
    assert "dim/zones at version 1 (not watched: its changes make no slice stale)" in shown
    assert "already published" in stocked.call(*run).out
    put_zones("three")
    stale = ("backfill", "zoned", "--from", "2026-06-09", "--to", "2026-06-10", "--only", "stale", "--dry-run")
    assert "left out: 1 published, 1 missing" in stocked.call(*stale).out
    assert stocked.call("restate", "zoned", "--date", "2026-06-09").code == 0
    frame = spark.read.format("delta").load(str(stocked.warehouse / "shop" / "zoned"))
    assert {row.zone for row in frame.collect()} == {"three"}
    assert "read delta" in stocked.call("history", "zoned").out
    assert "(not watched)" in stocked.call("graph").out
    put_zones("four")
    declare("")
    assert stocked.call(*run).out.startswith("zoned[2026-06-09]: published (generation 3")


SERVED = """
from twice import Daily, read, replace, task

@task("shop.zoned", scope=Daily("order_date", start="2026-01-01"), write=replace(),
      inputs={"orders": read("shop.orders", by="order_date"), "zones": read("postgres:public.zones", watch=False)})
def zoned(orders, zones):
    return orders.join(zones, "region")
"""


@pytest.mark.long
def test_a_table_of_a_server_that_is_not_watched_lets_a_slice_be_published(
    stocked: Shop, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no version to compare: watched, it is a reason to compute on every run."""
    import psycopg

    monkeypatch.setenv("TWICE_TEST_URL", database)
    stocked.write("twice.toml", f'{TOML}\n[connections.postgres]\nurl = "${{env:TWICE_TEST_URL}}"\n')
    stocked.write("pipelines/zoned.py", SERVED)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE zones AS SELECT 'EU' AS region, 'one' AS zone")
        run = ("run", "zoned", "--date", "2026-06-09")
        first = stocked.call(*run)
        assert first.code == 0, first.err
        assert "already published" in stocked.call(*run).out
        connection.execute("UPDATE zones SET zone = 'two'")
    assert "already published" in stocked.call(*run).out
    stale = ("backfill", "zoned", "--from", "2026-06-09", "--to", "2026-06-09", "--only", "stale", "--dry-run")
    assert "left out: 1 published" in stocked.call(*stale).out
    assert "(not watched: its changes make no slice stale)" in stocked.call("plan", "zoned", "--date", "2026-06-09").out


def test_a_file_that_is_rewritten_while_spark_reads_it_is_retried(landing: Shop, spark: Any) -> None:
    file, times = landing.root / "landing/2026-06-09/a.csv", list[int]()

    def rewrite(passed: Any) -> None:
        if passed is Point.AFTER_AUDIT and not times:
            times.append(1)
            file.write_text("order_id,order_date,amount\n1,2026-06-09,11\n")
            os.utime(file, ns=(2, 2))

    with armed(rewrite):
        twice.run("orders", date="2026-06-09", project=landing.root)
    assert amounts(spark, landing, "orders", "amount") == [11.0]
    failed = landing.call("history", "orders", "-o", "json").data["attempts"]
    assert sorted(each["state"] for each in failed) == ["failed", "published"]


@pytest.mark.long
def test_a_task_of_files_and_values_is_proved(landing: Shop) -> None:
    """In its enclosure files are read where they are, and nothing can write there."""
    proved = landing.call("prove", "orders", "--date", "2026-06-09", "-o", "json")
    assert proved.code == 0, proved.out + proved.err
    (proof,) = proved.data["proofs"]
    results = {trial["scenario"]: trial["verdict"] for trial in proof["trials"]}
    assert (proof["holds"], results["twice"]) == (True, "same")
    assert set(results.values()) <= {"same", "not applicable"}
