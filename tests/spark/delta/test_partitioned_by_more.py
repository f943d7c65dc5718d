"""A Delta table that was made elsewhere, partitioned by the slice column and by others: taken as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.target_suite import DAY, REVENUE, layout_of, plan_of, publish, sale, table

from twice.core.ports import Column, Landed, Shape
from twice.errors import LayoutDiffers

COLUMNS = (Column("order_date", "date"), Column("region", "string"), Column("revenue", "decimal(12,2)"))


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    harness = DeltaHarness(spark, tmp_path, internal=True)
    rows = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "us", "2.00"), sale("2026-06-10", "eu", "3.00")]
    frame = harness.frame(harness.target(), COLUMNS, rows)
    frame.coalesce(1).write.format("delta").partitionBy("region", "order_date").save(harness.locate(REVENUE))
    return harness


def test_a_day_of_a_table_that_is_partitioned_by_more_is_replaced_alone(harness: DeltaHarness) -> None:
    target = harness.target()
    assert target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False).exists
    assert target.one_slice_only(REVENUE) == "the table is partitioned by several columns"
    day = [sale("2026-06-09", "eu", "9.00")]
    assert isinstance(publish(harness, target, day, DAY, attempt="a"), Landed)
    assert table(harness, target) == [*day, sale("2026-06-10", "eu", "3.00")]
    assert target.published(REVENUE, plan_of(DAY).token_names).generations == {plan_of(DAY).token_names[0]: 1}
    assert isinstance(publish(harness, target, [], DAY, attempt="b"), Landed)
    assert table(harness, target) == [sale("2026-06-10", "eu", "3.00")]


def test_a_table_that_is_partitioned_by_others_alone_is_not_taken_as_it_is(harness: DeltaHarness, spark: Any) -> None:
    place = Path(harness.locate(REVENUE)).with_name("other")
    spark.read.format("delta").load(harness.locate(REVENUE)).write.format("delta").partitionBy("region").save(
        str(place)
    )
    other = type(REVENUE)("shop.other")
    with pytest.raises(
        LayoutDiffers, match="shop.other is partitioned by region, and this scope needs partitions by order_date"
    ):
        harness.target().prepare(other, Shape(COLUMNS), layout_of(), False)
