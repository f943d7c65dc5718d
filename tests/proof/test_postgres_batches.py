"""Many slices in one transaction on PostgreSQL, with one token each: the same as slice by slice. No JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import PostgresServer

from twice.core.backfill import Request
from twice.core.backfill_result import BackfillState
from twice.core.failpoints import Crash, Point, armed, crash_at
from twice.runtime.backfill import start
from twice.runtime.run_task import run_task
from twice.runtime.worker import Stop, work
from twice.runtime.workshop import Workshop

from .postgres_shop import DAILY, TASKS, ask, day, open_shop, run

DAYS = 5


def backfill(shop: Workshop, restate: bool) -> None:
    asked = Request("replaced", day(0), day(DAYS - 1), batch=DAYS)
    if restate:
        asked = replace(asked, restate=True, only=("published",))
    record = work(shop, start(shop, asked)[0].name, lambda event: None, Stop.never(), 1)
    assert (record.state, record.done) == (BackfillState.FINISHED, DAYS)


def held(url: str) -> tuple[list[Any], list[Any], list[Any]]:
    """The table, its tokens, and which of them each commit moved."""
    return (
        sorted(ask(url, "SELECT order_id, order_date, amount FROM shop.replaced")),
        sorted(ask(url, "SELECT app_id, generation FROM twice.tokens")),
        ask(url, "SELECT count(*) FROM twice.generations GROUP BY version ORDER BY version"),
    )


def prints(shop: Workshop) -> dict[str, str | None]:
    return {run.label: run.fingerprint for run in shop.ledger.runs("replaced")}


def test_a_batch_leaves_the_rows_the_tokens_and_the_fingerprints_that_single_slices_leave(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    other = postgres.fresh_database()
    single = open_shop(database, tmp_path / "single.db", DAYS)
    for index in range(DAYS):
        run(single, "replaced", index)
    batched = open_shop(other, tmp_path / "batched.db", DAYS)
    backfill(batched, restate=False)
    rows, tokens, commits = held(database)
    assert held(other) == (rows, tokens, [(DAYS,)])
    assert (len(rows), len(tokens), commits) == (DAYS * 6, DAYS, [(1,)] * DAYS)
    assert prints(batched) == prints(single)
    assert {end.outcome.value for end in (run(batched, "replaced", index) for index in range(DAYS))} == {
        "already published"
    }
    backfill(batched, restate=True)
    assert held(other) == (rows, [(app, 2) for app, _ in tokens], [(DAYS,)] * 2)
    for shop in (single, batched):
        shop.ledger.close()
    postgres.drop(other)


@pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
def test_a_batch_that_dies_around_its_commit_has_published_every_slice_or_none(
    database: str, tmp_path: Path, point: Point
) -> None:
    shop = open_shop(database, tmp_path / "ledger.db", DAYS)
    dead = replace(shop, holder=f"{shop.holder.rpartition(':')[0]}:0")  # a process of our number that is gone
    slices = tuple(DAILY.slice_of(day(index)) for index in range(DAYS))
    with pytest.raises(Crash), armed(crash_at(point)):
        run_task(dead, TASKS["replaced"], slices)
    landed = point is Point.AFTER_COMMIT
    rows, tokens, commits = held(database)
    assert (len(rows), {generation for _, generation in tokens}) == ((DAYS * 6, {1}) if landed else (0, {0}))
    assert commits == ([(DAYS,)] if landed else [])
    assert run_task(shop, TASKS["replaced"], slices).outcome.value == ("already published" if landed else "published")
    assert held(database)[2] == [(DAYS,)]
    assert len(held(database)[0]) == DAYS * 6
    shop.ledger.close()
