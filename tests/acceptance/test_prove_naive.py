"""Jobs that know nothing of `twice`: each naive job of the shop is caught by a proof, with the reason it is wrong."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import lit
from tests.receivers import HttpReceiver
from tests.sample import sample

from twice.core.results.proof import Proof, TrialResult
from twice.errors import UsageError
from twice.proof.jobs.job import prove_job

pytestmark = pytest.mark.timeout(600)

WORLDSHOP = Path(__file__).resolve().parents[2] / "examples" / "worldshop"
FIRST, SECOND = "2026-06-08", "2026-06-09"
TABLES = ("orders", "events", "stock_movements", "product_changes", "products", "stock")


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Path]:
    """Two days were delivered; the naive summary of the first is loaded."""
    folder = tmp_path_factory.mktemp("naive") / "warehouse"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(WORLDSHOP))
        generate = importlib.import_module("generate")
        for day in (FIRST, SECOND):
            size = generate.Size(1, 80, date.fromisoformat(day), customers=20, products=3)
            daily = [name for name in TABLES if generate.TABLES[name].by is not None]
            generate.write(spark, folder, size, daily if day == SECOND else list(TABLES))
        naive("daily_customer_summary", FIRST)(spark, folder)
        change_twice(spark, folder)
        yield folder
        shutil.rmtree(folder)


def change_twice(spark: Any, folder: Path) -> None:
    """One product gets five prices on the second day: whichever is kept is a matter of order."""
    place = str(folder / "shop" / "product_changes")
    some = spark.read.format("delta").load(place).orderBy("product_id", "updated_at").limit(1)
    for more in range(5):
        priced = some.withColumn("price_usd", (some["price_usd"] + more).cast(some.schema["price_usd"].dataType))
        dated = priced.withColumn("change_date", lit(SECOND).cast("date"))
        dated.write.format("delta").mode("append").save(place)


def naive(job: str, day: str = SECOND) -> Callable[[Any, Path], None]:
    function = getattr(importlib.import_module(f"naive.{job}"), job)

    def run(spark: Any, warehouse: Path) -> None:
        function(spark, warehouse, day)

    return run


def proved(spark: Any, delivered: Path, job: str, *scenarios: str) -> Proof:
    return prove_job(spark, naive(job), [f"naive.{job}"], delivered, scenarios)


CAUGHT = {
    "revenue_daily": ("twice", "append", ()),
    "events_raw": ("twice", "append", ()),
    "daily_inventory_adjustments": ("twice", "uuid", ("txn_id",)),
    "stock_levels": ("twice", "counter", ("quantity",)),
    "daily_customer_summary": ("others", "static overwrite", ()),
    "orders_copy": ("late-rows", "late rows", ()),
    "dim_products": ("row-order", "drop_duplicates", ("price_usd",)),
    "fact_events": ("row-order", "drop_duplicates", ("delivered_at",)),
}


@pytest.mark.parametrize("job", sample(CAUGHT, of=("revenue_daily",)))
def test_a_naive_job_is_caught_with_the_right_blame(spark: Any, delivered: Path, job: str) -> None:
    scenario, name, columns = CAUGHT[job]
    (trial,) = proved(spark, delivered, job, scenario).trials
    assert trial.result is TrialResult.CHANGED, trial
    assert trial.difference is not None
    cause = trial.difference.causes[0]
    assert cause.name == name, trial
    assert set(columns) <= set(cause.columns)


@pytest.mark.long
def test_a_loop_of_appends_that_dies_in_between_is_caught_and_the_users_tables_stay(
    spark: Any, delivered: Path
) -> None:
    before = sorted((str(path), path.stat().st_mtime_ns) for path in delivered.rglob("*"))
    (trial,) = proved(spark, delivered, "revenue_daily", "crash").trials
    assert trial.result is TrialResult.CHANGED
    assert trial.reason.startswith("died before write 2 of 5 (append ")
    assert trial.difference is not None
    assert (trial.difference.added, trial.difference.doubled, trial.difference.missing) == (1, 1, 0)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in delivered.rglob("*")) == before


@pytest.mark.long
def test_a_payment_between_the_post_and_its_note_is_made_twice_and_is_caught(
    spark: Any, delivered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payouts = importlib.import_module("naive.payouts")
    columns = "order_date date, region string, revenue double"
    revenue = spark.createDataFrame([(date.fromisoformat(SECOND), "eu", 10.0)], columns)
    revenue.write.format("delta").save(str(tmp_path / "shop" / "revenue_daily"))
    monkeypatch.setattr(payouts.local_spark, "start", lambda warehouse: spark)

    def pay(spark: Any, warehouse: Path) -> None:
        payouts.pay_out(warehouse, SECOND)
        revenue.write.format("delta").mode("overwrite").save(str(warehouse / "naive" / "paid"))

    with HttpReceiver().running() as bank:
        monkeypatch.setattr(payouts, "URL", bank.url("/payouts"))
        proof = prove_job(spark, pay, ["naive.paid"], tmp_path, ["twice", "crash"])
    assert [trial.result for trial in proof.trials] == [TrialResult.SAME, TrialResult.CHANGED]
    difference = proof.trials[1].difference
    assert difference is not None
    assert difference.causes[0].name == "effect in the code"
    assert "POST /payouts at 127.0.0.1:" in difference.causes[0].why


def overwriting(spark: Any, delivered: Path) -> None:
    """A sound plain job: it replaces its day, and nothing in it depends on the order of rows."""
    orders = spark.read.format("delta").load(str(delivered / "shop" / "orders")).where(f"order_date = '{SECOND}'")
    counted = orders.groupBy("order_date", "region").count()
    writer = counted.write.format("delta").mode("overwrite").partitionBy("order_date")
    writer.option("replaceWhere", f"order_date = '{SECOND}'").save(str(delivered / "plain" / "counted"))


@pytest.mark.long
def test_a_sound_plain_job_is_not_accused(spark: Any, delivered: Path) -> None:
    proof = prove_job(spark, overwriting, ["plain.counted"], delivered)
    assert proof.holds, proof
    assert [trial.scenario for trial in proof.trials if trial.result is TrialResult.NOT_APPLICABLE] == [
        "others",
        "crash",
    ]


def marking_first(spark: Any, delivered: Path) -> None:
    """Notes that the day is done, then does it."""
    note = delivered / "plain" / f"{SECOND}.done"
    if note.exists():
        return
    note.parent.mkdir(exist_ok=True)
    note.touch()
    orders = spark.read.format("delta").load(str(delivered / "shop" / "orders")).where(f"order_date = '{SECOND}'")
    orders.write.format("delta").mode("append").save(str(delivered / "plain" / "marked"))


@pytest.mark.long
def test_a_mark_before_the_data_loses_rows_and_is_named(spark: Any, delivered: Path) -> None:
    proof = prove_job(spark, marking_first, ["plain.marked"], delivered, ["twice", "crash"])
    assert [trial.result for trial in proof.trials] == [TrialResult.SAME, TrialResult.CHANGED]
    difference = proof.trials[1].difference
    assert difference is not None and difference.missing and not difference.added
    assert difference.causes[0].name == "mark before data"


def test_a_table_that_the_job_does_not_write_is_asked_back(spark: Any, delivered: Path) -> None:
    with pytest.raises(UsageError, match="the job wrote no table plain.other"):
        prove_job(spark, overwriting, ["plain.other"], delivered)
