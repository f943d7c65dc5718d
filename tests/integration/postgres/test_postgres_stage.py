"""The stage: takes that are written side by side, sealed to those that count, and asked by audits. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.contracts.postgres_harness import ROWS, PostgresHarness, staged
from tests.contracts.target_suite import COLUMNS, DAY, REVENUE, plan_of, prepare
from tests.postgres_server import PostgresServer

from twice.core.write import Layout
from twice.errors import DeclarationError, StageLost, StageMismatch
from twice.targets.postgres.frames.arrow import arrow_type
from twice.targets.postgres.server.names import relation_of
from twice.targets.postgres.server.server import Server
from twice.targets.postgres.table import Intent, find
from twice.targets.postgres.write.stage import Taken, copy_part, loading_of, open_stage, seal


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


# what a stage is asked


def test_staged_rows_that_repeat_are_counted_by_the_server(harness: PostgresHarness) -> None:
    target, stage = staged(harness, "a", [*ROWS, *ROWS, *[(date(2026, 6, 9), None, Decimal(n)) for n in (1, 2, 2)]])
    counted = {
        columns: target.duplicates(stage, columns) for columns in (("region",), ("REGION", "revenue"), ("order_date",))
    }
    assert counted == {("region",): 4, ("REGION", "revenue"): 3, ("order_date",): 6}
    with pytest.raises(DeclarationError, match=r"shop\.revenue has no column regoin"):
        target.duplicates(stage, ["regoin"])


def test_a_lost_stage_is_not_one_without_repeats(harness: PostgresHarness, postgres: PostgresServer) -> None:
    target, stage = staged(harness, "a")
    postgres.restart(immediate=True)
    with pytest.raises(StageLost, match="2 rows were staged, and the stage holds 0"):
        target.duplicates(stage, ["region"])


# takes


def _batches(rows: list[Any]) -> Iterator[Any]:
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in COLUMNS])
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return iter(pa.Table.from_pylist(named, schema).to_batches())


def opened(harness: PostgresHarness, attempt: str) -> Any:
    """A stage that waits for its parts."""
    target = harness.target()
    prepare(target)
    server = Server("postgres", harness.url, harness.limits)
    with server.transaction() as connection:
        held = find(connection, relation_of(REVENUE))
        assert held is not None
        return loading_of(
            server, open_stage(connection, Intent(held, held, Layout()), attempt, plan_of(DAY).token_names)
        )


def test_a_part_copied_again_counts_once(harness: PostgresHarness) -> None:
    loading = opened(harness, "a")
    copy_part(loading, _batches(ROWS))  # committed, and then its task failed: nobody reported it
    again, other = copy_part(loading, _batches(ROWS[1:])), copy_part(loading, _batches(ROWS[:1]))
    assert seal(loading, [again, other]) == 2
    assert harness.ask("SELECT region FROM twice.stage_a ORDER BY region") == [("eu",), ("us",)]
    assert sorted(harness.ask("SELECT take FROM twice.takes")) == sorted([(again.take,), (other.take,)])


def test_a_part_that_fails_in_its_copy_leaves_nothing_and_may_be_copied_again(harness: PostgresHarness) -> None:
    loading = opened(harness, "a")

    def failing() -> Iterator[Any]:
        yield from _batches(ROWS)
        raise RuntimeError("the executor is gone")

    with pytest.raises(Exception, match="executor is gone"):
        copy_part(loading, failing())
    assert harness.ask("SELECT count(*) FROM twice.stage_a") == [(0,)]
    assert seal(loading, [copy_part(loading, _batches(ROWS))]) == 2


@pytest.mark.parametrize("counts", ["the slow one", "its twin"])
def test_of_twins_at_once_neither_waits_and_the_one_that_counts_stays(harness: PostgresHarness, counts: str) -> None:
    loading = opened(harness, "a")
    in_the_middle, go_on, takes = threading.Event(), threading.Event(), {}

    def slowly() -> Iterator[Any]:
        yield from _batches(ROWS[:1])
        in_the_middle.set()
        assert go_on.wait(30)
        yield from _batches(ROWS[1:])

    slow = threading.Thread(target=lambda: takes.update({"the slow one": copy_part(loading, slowly())}))
    slow.start()
    assert in_the_middle.wait(30)
    takes["its twin"] = copy_part(loading, _batches(ROWS))  # done while the other still copies
    go_on.set()
    slow.join(30)
    assert harness.ask("SELECT count(*) FROM twice.stage_a") == [(4,)]
    assert seal(loading, [takes[counts]]) == 2
    assert harness.ask(f"SELECT DISTINCT {loading.take_column} FROM twice.stage_a") == [(takes[counts].take,)]


def test_a_take_that_the_stage_does_not_have_cannot_be_sealed(harness: PostgresHarness) -> None:
    loading = opened(harness, "a")
    taken = copy_part(loading, _batches(ROWS))
    for wrong in (replace(taken, rows=3), Taken(taken.take + 1, 2)):
        with pytest.raises(StageMismatch, match="and the job reported"):
            seal(loading, [wrong])
    assert harness.ask("SELECT rows FROM twice.stages") == [(None,)]


def test_a_part_that_comes_after_the_seal_gives_up(harness: PostgresHarness) -> None:
    loading = opened(harness, "a")
    first = copy_part(loading, _batches(ROWS))
    sealing = threading.Event()

    def late() -> Iterator[Any]:
        seal(loading, [first])  # the seal falls while this twin is copying
        sealing.set()
        yield from _batches(ROWS)

    for batches in (late(), _batches(ROWS)):
        with pytest.raises(StageMismatch, match="sealed or gone"):
            copy_part(loading, batches)
    assert sealing.is_set()
    assert harness.ask("SELECT count(*) FROM twice.stage_a") == [(2,)]
