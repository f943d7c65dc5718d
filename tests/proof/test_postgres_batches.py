"""Many slices in one transaction on PostgreSQL, with one token each: the same as slice by slice. No JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import PostgresServer
from tests.runtime.starting import start

from twice.core.backfill.plan import BackfillRequest
from twice.core.backfill.result import BackfillState
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.scope import slice_named
from twice.errors import TableTaken
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.worker import Stop, work
from twice.runtime.context import RunContext
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.takeover import take_over

from .postgres_shop import DAILY, TASKS, ask, day, open_context, run

DAYS = 5


def backfill(context: RunContext, restate: bool) -> None:
    asked = BackfillRequest("replaced", day(0), day(DAYS - 1), batch=DAYS)
    if restate:
        asked = replace(asked, restate=True, only=("published",))
    record = work(context, start(context, asked)[0].name, lambda event: None, Stop.never(), 1)
    assert (record.state, record.done) == (BackfillState.FINISHED, DAYS)


def held(url: str) -> tuple[list[Any], list[Any], list[Any]]:
    """The table (no rows, as long as there is none), its tokens, and which of them each commit moved."""
    there = ask(url, "SELECT to_regclass('shop.replaced')") != [(None,)]
    return (
        sorted(ask(url, "SELECT order_id, order_date, amount FROM shop.replaced")) if there else [],
        sorted(ask(url, "SELECT app_id, generation FROM twice.tokens WHERE starts_with(app_id, 'twice/')")),
        ask(url, "SELECT count(*) FROM twice.generations GROUP BY version ORDER BY version"),
    )


def prints(context: RunContext) -> dict[str, str | None]:
    return {run.label: run.fingerprint for run in context.ledger.runs("replaced")}


def test_a_batch_leaves_the_rows_the_tokens_and_the_fingerprints_that_single_slices_leave(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    other = postgres.fresh_database()
    single = open_context(database, tmp_path / "single.db", DAYS)
    for index in range(DAYS):
        run(single, "replaced", index)
    batched = open_context(other, tmp_path / "batched.db", DAYS)
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
    for context in (single, batched):
        context.ledger.close()
    postgres.drop(other)


@pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
def test_a_batch_that_dies_around_its_commit_has_published_every_slice_or_none(
    database: str, tmp_path: Path, point: Point
) -> None:
    context = open_context(database, tmp_path / "ledger.db", DAYS)
    dead = replace(context, holder=f"{context.holder.rpartition(':')[0]}:0")  # a process of our number that is gone
    slices = tuple(DAILY.slice_of(day(index)) for index in range(DAYS))
    with pytest.raises(Crash), armed(crash_at(point)):
        run_task(dead, TASKS["replaced"], slices)
    landed = point is Point.AFTER_COMMIT
    rows, tokens, commits = held(database)
    assert (len(rows), {generation for _, generation in tokens}) == ((DAYS * 6, {1}) if landed else (0, set()))
    assert commits == ([(DAYS,)] if landed else [])
    assert run_task(context, TASKS["replaced"], slices).outcome.value == (
        "already published" if landed else "published"
    )
    assert held(database)[2] == [(DAYS,)]
    assert len(held(database)[0]) == DAYS * 6
    context.ledger.close()


def test_a_renamed_task_of_any_strategy_writes_nothing_until_formerly_names_it(database: str, tmp_path: Path) -> None:
    context = open_context(database, tmp_path / "ledger.db", 1)
    for name, declared in TASKS.items():
        run(context, name, 0)
        before = ask(database, f"SELECT * FROM shop.{name}"), ask(database, "SELECT * FROM twice.tokens")
        slices = (slice_named(declared.scope, None if name == "appended" else day(0)),)
        renamed = replace(declared, name=f"{name}_new")
        for project in ("proof", "other"):
            moved = replace(context, project=assemble(project, [renamed]))
            with pytest.raises(TableTaken, match=f"published by the task {name}"):
                run_task(moved, renamed, slices)
        known = replace(renamed, formerly=(name,))
        assert isinstance(context.ledger, Ledger)
        context.ledger.rename(name, known.name)
        end = run_task(replace(context, project=assemble("proof", [known])), known, slices)
        assert end.outcome in (Outcome.ALREADY, Outcome.NOTHING_NEW), name
        assert before == (ask(database, f"SELECT * FROM shop.{name}"), ask(database, "SELECT * FROM twice.tokens"))


def test_a_table_that_was_taken_over_is_written_by_the_one_and_refused_to_the_other(
    database: str, tmp_path: Path
) -> None:
    context = open_context(database, tmp_path / "ledger.db", 1)
    old = TASKS["merged"]
    new = replace(old, name="merge")
    slices = (slice_named(old.scope, day(0)),)
    run(context, "merged", 0)
    moved = replace(context, project=assemble("other", [new]))
    assert take_over(moved, new, HumanDecision("ana", "so")) == {"the task merged of the project proof": 1}
    assert run_task(moved, new, slices).outcome is Outcome.PUBLISHED
    with pytest.raises(TableTaken, match="was taken over by the task merge of the project other"):
        run(context, "merged", 0)
    assert take_over(context, old, HumanDecision("bo", "ours")) == {"the task merge of the project other": 1}
    assert run(context, "merged", 0).why == (
        "the table was another task's since it was published, and taken back: its rows may be the other's"
    )
    assert len(ask(database, "SELECT * FROM shop.merged")) == 6
