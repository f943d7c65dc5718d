"""Readers of a table that is to be changed under its name: they go on while the change waits for them. No JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from tests.contracts.exchange_suite import NEW, OLD, commit_exchange, fill, stage_exchange
from tests.contracts.postgres_harness import PostgresHarness
from tests.contracts.target_suite import (
    COLUMNS,
    DAILY,
    DAY,
    NEXT,
    REVENUE,
    commit,
    generations,
    plan_of,
    prepare,
    publish,
)

from twice.core.ports import Column, Landed, Shape, Target
from twice.core.write import Layout
from twice.errors import RunError
from twice.targets.memory.rows import Rows
from twice.targets.postgres.server.server import Limits

PATIENCE_S = 20.0
WAITS = (
    "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    " AND relation = 'shop.revenue'::regclass"
)


@pytest.fixture
def harness(one_database: str) -> PostgresHarness:
    harness = PostgresHarness(one_database, Limits(lock=PATIENCE_S, statement=60))
    harness.ask("DROP SCHEMA IF EXISTS shop, twice CASCADE")
    target = harness.target()
    prepare(target)
    publish(harness, target, OLD[:1], DAY, attempt="a")
    publish(harness, target, OLD[1:], NEXT, attempt="b")
    return harness


def exchanged(harness: PostgresHarness, target: Target) -> Callable[[], Any]:
    staged = stage_exchange(target, DAY, NEXT, at=fill(harness, target, NEW, DAY, NEXT))
    return lambda: commit_exchange(target, staged)


def widened(harness: PostgresHarness, target: Target) -> Callable[[], Any]:
    wider = (*COLUMNS[:2], Column("revenue", "decimal(14,2)"))
    into = target.prepare(REVENUE, Shape(wider), Layout(DAILY.held_in), True)
    plan = plan_of(NEXT)
    row = (date(2026, 6, 10), "eu", Decimal("3.00"))
    staged = target.stage(REVENUE, Rows(wider, (row,)), plan, "c", into=into)
    expected = generations(harness.target(), plan)
    return lambda: commit(target, staged, expected)


@pytest.mark.parametrize("change", [exchanged, widened])
def test_a_reader_that_has_the_table_open_can_open_it_on_a_second_connection_while_a_change_waits(
    harness: PostgresHarness, change: Callable[[PostgresHarness, Target], Callable[[], Any]]
) -> None:
    land = change(harness, harness.target())
    ends: list[Any] = []
    with psycopg.connect(harness.url) as first, psycopg.connect(harness.url) as second:
        first.execute("SELECT 1 FROM shop.revenue LIMIT 0")
        changing = threading.Thread(target=lambda: ends.append(land()))
        changing.start()
        deadline = time.monotonic() + 30
        while harness.ask(WAITS) != [(1,)]:
            assert time.monotonic() < deadline, "the change never waited for the reader"
        second.execute("SET lock_timeout = '5s'")
        assert second.execute("SELECT count(*) FROM shop.revenue").fetchone() == (2,)
        assert not ends
        first.rollback()
        second.rollback()
        changing.join(30)
    assert [type(end) for end in ends] == [Landed]


def test_a_change_that_no_reader_makes_room_for_says_so_when_its_patience_is_over(harness: PostgresHarness) -> None:
    impatient = PostgresHarness(harness.url, Limits(lock=0.5, statement=60))
    land = exchanged(impatient, impatient.target())
    with psycopg.connect(harness.url) as reader:
        reader.execute("SELECT 1 FROM shop.revenue LIMIT 0")
        with pytest.raises(RunError, match="locked by someone else"):
            land()
        reader.rollback()
    assert harness.seen(harness.target(), REVENUE) == OLD
    assert isinstance(land(), Landed)
