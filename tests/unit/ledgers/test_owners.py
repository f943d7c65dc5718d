"""A ledger is opened for one environment: questions without a task's name are about that one too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.ledger.record import AttemptState, ClaimRequest
from twice.core.ledger.record_owner import RecordOwner, TaskTable, backfill_key, name_of
from twice.ledgers.ledger import Ledger

MINUTE = timedelta(minutes=1)


def home(environment: str, table: str = "delta:shop.t", **options: tuple[str, ...]) -> RecordOwner:
    return RecordOwner("p", environment, {"t": TaskTable(environment, table, **options)})  # type: ignore[arg-type]


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[tuple[Ledger, Ledger, Ledger]]:
    """Of dev, of prod, and of dev once its task writes another table."""
    homes = home("dev"), home("prod"), home("dev", "delta:shop.other")
    with ExitStack() as stack:
        dev, prod, moved = (
            stack.enter_context(closing(Ledger.open(f"sqlite:///{tmp_path}/ledger.db", owner=each))) for each in homes
        )
        yield dev, prod, moved


def test_attempts_of_another_environment_or_table_are_not_seen(ledgers: tuple[Ledger, Ledger, Ledger]) -> None:
    dev, prod, moved = ledgers
    dev.claim(ClaimRequest("t", ["a"], "one", "run", "h"), MINUTE)
    assert [attempt.id for attempt in dev.open_attempts()] == ["one"]
    for other in (prod, moved):
        assert other.open_attempts() == () and other.attempts("t") == () and other.runs() == ()
    assert prod.attempt("one") is None and not prod.close_attempt("one", AttemptState.FAILED)


def test_a_task_that_is_not_declared_any_more_is_still_its_environments(ledgers: tuple[Ledger, Ledger, Ledger]) -> None:
    dev, prod, _ = ledgers
    dev.claim(ClaimRequest("gone", ["a"], "one", "run", "h"), MINUTE)
    assert [run.task for run in dev.runs()] == ["gone"]
    assert prod.runs() == ()


def test_opening_for_a_known_environment_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    seen = []
    for _ in range(2):
        Ledger.open(f"sqlite:///{path}", owner=home("dev", formerly=("/data/dev",))).close()
        seen.append(path.read_bytes())
    assert seen[0] == seen[1]


def test_names_come_back_from_keys_whatever_they_are_made_of() -> None:
    key = home("dev").key("t")
    assert name_of(key) == "t"
    assert name_of(backfill_key("issue #7 again", key)) == "issue #7 again"
    assert name_of("from_before") == "from_before"


def test_a_name_with_a_secret_in_it_does_not_stay_in_the_ledger_and_its_records_follow(tmp_path: Path) -> None:
    """Also those of tasks that are not declared any more, and of a process that does not know the new name yet."""
    url, former, place = f"sqlite:///{tmp_path}/ledger.db", "postgresql:///host=db password=s3kr1t", "postgresql://db/"
    with closing(Ledger.open(url, owner=home(former))) as before:
        for name in ("t", "gone"):
            before.claim(ClaimRequest(name, ["a"], f"{name}-1", "run", "h"), MINUTE)
        owner = replace(home(place, formerly=(former,)), retired={former: place})
        with closing(Ledger.open(url, owner=owner)) as after:
            assert [attempt.id for attempt in after.open_attempts()] == ["t-1", "gone-1"]
            assert "s3kr1t" not in str(list(after.export()))
        before.claim(ClaimRequest("t", ["b"], "t-2", "run", "h"), MINUTE)
    with closing(Ledger.open(url, owner=owner)) as again:
        assert [attempt.id for attempt in again.open_attempts("t")] == ["t-1", "t-2"]
        assert "s3kr1t" not in str(list(again.export())) + repr(owner)


def test_a_backfill_with_one_batch_of_another_environment_is_not_seen(ledgers: tuple[Ledger, Ledger, Ledger]) -> None:
    """Its workers would wait for ever for that batch; whichever of many it is."""
    dev, prod, _ = ledgers
    named = enumerate(("t", "t", "u", "z"), start=1)
    batches = (PlannedBatch(n, task, (PlannedSlice(f"{n}", "missing", "so"),)) for n, task in named)
    assert dev.backfills.create(BackfillPlan("june", BackfillRequest("t", "1", "4"), tuple(batches)))
    assert [record.name for record in dev.backfills.records()] == ["june"]
    with dev._engine.begin() as connection:
        moved = text("UPDATE twice_batches SET task = :theirs WHERE number = 4")
        connection.execute(moved, {"theirs": prod.owner.key("z")})
    assert dev.backfills.records() == () and dev.backfills.record("june") is None
