"""The two retry stories of the tutorial, with real kills: what people write first, and the same job with twice."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.proof.conftest import until

from .conftest import TOML, Shop

DAY = "2026-06-09"
ALL_ROWS, LOADED, BATCH = 250_000, 180_000, 60_000

NAIVE = """
import sys
from pathlib import Path

def load(spark, warehouse, batch, rows):
    source = spark.read.format("delta").load(f"{warehouse}/shop/sales")
    for start in range(0, rows, batch):
        part = source.where(f"sale_id >= {start} AND sale_id < {start + batch}")
        part.write.format("delta").mode("append").save(f"{warehouse}/naive/loaded")
        print(min(start + batch, rows), flush=True)

if __name__ == "__main__":
    from twice.engine.session.session import embedded
    from twice.engine.session.spark_conf import SessionSettings

    warehouse = Path(sys.argv[1])
    settings = SessionSettings(warehouse.parent / ".naive", warehouse, short_jobs=True, archive="use")
    load(embedded(settings), warehouse, int(sys.argv[2]), int(sys.argv[3]))
"""

LOADED_WITH_TWICE = """
import time
from pathlib import Path
from pyspark.sql import functions as F
from twice import Daily, read, replace, task

TROUBLE = Path(__file__).parents[1] / "trouble"
WHERE = int(TROUBLE.read_text()) if TROUBLE.exists() else None

@F.udf("bigint")
def troubled(sale_id):
    if sale_id == WHERE:
        time.sleep(60 if sale_id > 300 else 0)
        raise ConnectionError("the source is gone")
    return sale_id

@task("shop.loaded", scope=Daily("sold_on", start="2026-01-01"), write=replace(),
      inputs={"sales": read("shop.sales", by="sold_on")})
def loaded(sales):
    return sales.repartitionByRange(10, "sale_id").withColumn("sale_id", troubled("sale_id"))
"""


@pytest.fixture
def sales(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path / "shop")
    shop.write("twice.toml", TOML)
    shop.write("naive.py", NAIVE)
    shop.write("pipelines/loaded.py", LOADED_WITH_TWICE)
    return shop


def deliver(spark: Any, shop: Shop, rows: int) -> None:
    frame = spark.range(rows).selectExpr("id AS sale_id", f"DATE'{DAY}' AS sold_on", "id % 97 AS amount")
    frame.write.format("delta").save(str(shop.warehouse / "shop" / "sales"))


def seen(spark: Any, shop: Shop, place: str) -> int:
    """How many rows a reader sees."""
    table = shop.warehouse / place / "loaded"
    return spark.read.format("delta").load(str(table)).count() if (table / "_delta_log").exists() else 0


def load_naively(spark: Any, shop: Shop, batch: int, rows: int) -> None:
    runpy.run_path(str(shop.root / "naive.py"))["load"](spark, shop.warehouse, batch, rows)


def finished_files(shop: Shop) -> list[str]:
    """Data files that are written to their end, in whatever version of the table, or in none."""
    files = (shop.warehouse / "shop" / "loaded").rglob("*.parquet")
    return [str(file) for file in files if file.read_bytes().endswith(b"PAR1")]


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(300)  # two processes with a JVM each
def test_180_000_of_250_000_rows_then_a_retry_gives_250_000(sales: Shop, spark: Any) -> None:
    deliver(spark, sales, ALL_ROWS)
    script = [sys.executable, str(sales.root / "naive.py"), str(sales.warehouse), str(BATCH), str(ALL_ROWS)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, start_new_session=True) as naive:
        assert naive.stdout is not None
        for line in naive.stdout:
            if int(line) == LOADED:
                os.killpg(naive.pid, signal.SIGKILL)
    assert (naive.returncode, seen(spark, sales, "naive")) == (-signal.SIGKILL, LOADED)
    load_naively(spark, sales, BATCH, ALL_ROWS)
    assert seen(spark, sales, "naive") == LOADED + ALL_ROWS

    sales.write("trouble", str(ALL_ROWS - 1))
    with sales.start("run", "loaded", "--date", DAY) as ours:
        until(lambda: len(finished_files(sales)) >= 8, "the job to have written most of its rows")
        os.killpg(ours.pid, signal.SIGKILL)
    assert ours.returncode == -signal.SIGKILL
    written = spark.read.parquet(*finished_files(sales)).count()
    assert LOADED <= written < ALL_ROWS
    assert seen(spark, sales, "shop") == 0
    (sales.root / "trouble").unlink()
    retried = sales.call("run", "loaded", "--date", DAY, "--wait", "30")
    assert retried.code == 0, retried.err
    assert seen(spark, sales, "shop") == ALL_ROWS


def test_100_and_300_and_300_rows_give_300(sales: Shop, spark: Any) -> None:
    deliver(spark, sales, 300)
    load_naively(spark, sales, 100, 100)  # it died after its first hundred
    load_naively(spark, sales, 300, 300)
    load_naively(spark, sales, 300, 300)  # someone was not sure, and started it once more
    assert seen(spark, sales, "naive") == 100 + 300 + 300

    sales.write("trouble", "100")
    died = sales.call("run", "loaded", "--date", DAY)
    assert died.code == 1
    assert "the source is gone" in died.err
    assert seen(spark, sales, "shop") == 0
    (sales.root / "trouble").unlink()
    assert sales.call("run", "loaded", "--date", DAY).code == 0
    assert seen(spark, sales, "shop") == 300
    assert "already published" in sales.call("run", "loaded", "--date", DAY).out
    assert "IDENTICAL" in sales.call("restate", "loaded", "--date", DAY).out
    assert seen(spark, sales, "shop") == 300
