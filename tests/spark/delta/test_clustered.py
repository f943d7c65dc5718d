"""Tables that only Delta's public calls may write, and that are not partitioned by the slice column: clustered ones, or
with a feature of their own. A slice is replaced by its condition, in one commit with its token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.delta_harness import UNUSUAL, DeltaHarness
from tests.contracts.target_suite import (
    COLUMNS,
    DAY,
    NEXT,
    REVENUE,
    THIRD,
    layout_of,
    note_of,
    plan_of,
    prepare,
    publish,
    sale,
    table,
)

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Landed, Lost, Shape
from twice.errors import LayoutDiffers

OLD = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "2.00"), sale("2026-06-10", "us", "3.00")]
CREATE = "CREATE TABLE delta.`{}` (order_date DATE, region STRING, revenue DECIMAL(12,2)) USING delta {}"
CLUSTERED = "CLUSTER BY (region, order_date)"


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, True)


def made(harness: DeltaHarness, layout: str, *changes: str) -> None:
    """By others: all rows in one file, or one of each region, so that each slice is only a part of it."""
    place = harness.locate(REVENUE)
    harness._spark.sql(CREATE.format(place, layout))
    for change in changes:
        harness._spark.sql(change.format(f"delta.`{place}`"))
    frame = harness.frame(harness.target(), COLUMNS, OLD).coalesce(1)
    frame.write.format("delta").mode("append").save(place)
    assert len(harness.files(REVENUE)) == (2 if "PARTITIONED" in layout else 1)


@pytest.mark.parametrize(
    ("layout", "changes"),
    [(CLUSTERED, ()), ("", UNUSUAL[:1]), ("PARTITIONED BY (region)", UNUSUAL[1:2])],
    ids=["clustered", "change data feed", "by another column, with column mapping"],
)
def test_exactly_the_rows_of_a_slice_are_replaced_in_one_commit_with_its_token(
    harness: DeltaHarness, layout: str, changes: tuple[str, ...]
) -> None:
    made(harness, layout, *changes)
    target = harness.target()
    assert target.one_slice_only(REVENUE) is not None
    prepare(target)
    before = target.published(REVENUE, ())
    new = [sale("2026-06-10", "eu", "9.00")]
    end = publish(harness, target, new, NEXT, attempt="a")
    assert isinstance(end, Landed) and before.version is not None
    (name,) = plan_of(NEXT).token_names
    after = harness.target().published(REVENUE, (name,))
    assert (after.generations[name], after.id) == (1, before.id)
    note = harness.target().provenance(REVENUE, name, 1)
    assert note is not None and (note.attempt, note.version) == ("a", end.version)
    assert harness.rows(harness.target().read(REVENUE)) == [OLD[0], *new]
    assert isinstance(publish(harness, harness.target(), [], DAY, attempt="b"), Landed)
    assert harness.rows(harness.target().read(REVENUE)) == new


def test_two_runs_of_a_slice_of_a_clustered_table_do_not_both_land(harness: DeltaHarness) -> None:
    made(harness, CLUSTERED)
    first, second = harness.target(), harness.target()
    plan = plan_of(NEXT)
    expected = dict.fromkeys(plan.token_names, 0)
    staged = [
        each.stage(
            REVENUE,
            harness.frame(each, COLUMNS, [sale("2026-06-10", "eu", amount)]),
            plan,
            attempt,
            into=each.prepare(REVENUE, Shape(COLUMNS), layout_of(), False),
        )
        for each, attempt, amount in ((first, "a", "5.00"), (second, "b", "6.00"))
    ]
    assert isinstance(first.commit(staged[0], expected, note_of(plan, "a", expected)), Landed)
    # Another slice in between changes the same file, and is no reason to lose.
    assert isinstance(publish(harness, harness.target(), [], THIRD, attempt="c"), Landed)
    assert isinstance(second.commit(staged[1], expected, note_of(plan, "b", expected)), Lost)
    assert table(harness, harness.target()) == [OLD[0], sale("2026-06-10", "eu", "5.00")]


@pytest.mark.parametrize("point", [Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
def test_a_publish_to_a_clustered_table_that_dies_has_landed_or_not(harness: DeltaHarness, point: Point) -> None:
    made(harness, CLUSTERED)
    new = [sale("2026-06-10", "eu", "9.00")]
    with armed(crash_at(point)), pytest.raises(Crash):
        publish(harness, harness.target(), new, NEXT, attempt="a")
    (name,) = plan_of(NEXT).token_names
    landed = point is Point.AFTER_COMMIT
    assert harness.target().published(REVENUE, (name,)).generations[name] == int(landed)
    assert table(harness, harness.target()) == ([OLD[0], *new] if landed else OLD)


def test_a_plain_table_that_is_not_partitioned_is_still_refused(harness: DeltaHarness) -> None:
    made(harness, "")
    with pytest.raises(LayoutDiffers, match="is not partitioned"):
        prepare(harness.target())
