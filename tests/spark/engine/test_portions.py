"""What each slice of a batch reads is what a run of it alone would read: the same leaves, to the letter."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as sf

from twice.core.ports import Leaf, Portion
from twice.core.scope import Daily, days
from twice.engine.frames import frames
from twice.engine.lineage.leaves import leaves
from twice.engine.lineage.portions import leaves_of_each

SCOPE = Daily("order_date", start="2026-01-01")
WEEK = tuple(SCOPE.through(SCOPE.slice_of("2026-02-26"), SCOPE.slice_of("2026-03-04")))


@pytest.fixture(scope="module")
def tables(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks of orders by day, and a small table of regions."""
    root = tmp_path_factory.mktemp("portions")
    orders = spark.range(140).selectExpr(
        "id", "date_add(DATE'2026-02-20', CAST(id % 14 AS INT)) AS order_date", "id % 3 AS region", "id * 2 AS amount"
    )
    orders.write.format("delta").partitionBy("order_date").save(str(root / "by_day"))
    spark.range(3).selectExpr("id AS region", "id AS tax").write.format("delta").save(str(root / "regions"))
    return root


def alone(spark: Any, table: Path, job: Any, before: timedelta) -> dict[str, tuple[Leaf, ...]]:
    found = {}
    for slice_ in WEEK:
        orders = spark.read.format("delta").load(str(table / "by_day"))
        cut = frames.cut(orders, "order_date", SCOPE.widened(slice_, before), slice_.end, None)
        found[slice_.label] = leaves(job(cut, spark, table))
    return found


def together(spark: Any, table: Path, job: Any, before: timedelta) -> dict[str, tuple[Leaf, ...]]:
    orders = spark.read.format("delta").load(str(table / "by_day"))
    cut = frames.cut(orders, "order_date", SCOPE.widened(WEEK[0], before), WEEK[-1].end, None)
    parts = {slice_.label: (SCOPE.widened(slice_, before), slice_.end) for slice_ in WEEK}
    portion = Portion(orders, "ORDER_DATE", None, parts)
    return dict(leaves_of_each(job(cut, spark, table), WEEK, [portion]))


def summed(orders: Any, spark: Any, table: Path) -> Any:
    return orders.groupBy("order_date").agg(sf.sum("amount").alias("amount"))


def joined(orders: Any, spark: Any, table: Path) -> Any:
    regions = spark.read.format("delta").load(str(table / "regions"))
    return orders.where("amount > 10").join(regions, "region").groupBy("order_date").agg(sf.sum("tax").alias("tax"))


@pytest.mark.parametrize("job", [summed, joined])
@pytest.mark.parametrize("before", [0, 3])
def test_a_slice_of_a_batch_reads_what_it_reads_alone(spark: Any, tables: Path, job: Any, before: int) -> None:
    assert together(spark, tables, job, days(before)) == alone(spark, tables, job, days(before))


def test_slices_of_a_batch_read_different_files_and_all_of_the_table_that_is_not_cut(spark: Any, tables: Path) -> None:
    found = together(spark, tables, joined, timedelta(0))
    assert len(set(found.values())) == len(WEEK)
    whole = {leaf for leaf in found[WEEK[0].label] if leaf.name.endswith("regions")}
    assert all(whole <= set(leaves_) for leaves_ in found.values())


def test_an_input_joined_with_itself_counts_whole_for_every_slice(spark: Any, tables: Path) -> None:
    def with_itself(orders: Any, spark: Any, table: Path) -> Any:
        other = orders.groupBy("region").agg(sf.max("amount").alias("most"))
        return orders.join(other, "region").select("order_date", "most")

    found = together(spark, tables, with_itself, timedelta(0))
    single = alone(spark, tables, with_itself, timedelta(0))
    # In doubt too many files, never too few: a later run computes it once more.
    assert set(found) == set(single)
    assert all(leaf.identity is not None for leaves_ in found.values() for leaf in leaves_)


def test_the_estimate_of_rows_is_of_the_files_left_after_pruning(spark: Any, tables: Path) -> None:
    orders = spark.read.format("delta").load(str(tables / "by_day"))
    cut = frames.cut(orders, "order_date", WEEK[0].start, WEEK[0].end, None)
    assert 0 < frames.estimate(cut) < frames.estimate(orders)
