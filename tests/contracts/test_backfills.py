"""What every ledger promises of backfills: a frozen plan, and one worker at a time for a batch of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from tests.processes.ledger_processes import MINUTE

from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.backfill.result import BackfillState, BatchClaim, BatchState, Comparison, SliceEnd
from twice.core.ledger.record import Claim, ClaimRequest
from twice.ledgers.ledger import Ledger

REQUEST = BackfillRequest("revenue", "2026-01-01", "2026-01-06", batch=3)


class HandClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ledger(either: str, clock: HandClock) -> Iterator[Ledger]:
    ledger = Ledger.open(either, clock)
    yield ledger
    ledger.close()


def days(*numbers: int) -> tuple[PlannedSlice, ...]:
    return tuple(PlannedSlice(f"2026-01-{number:02d}", "missing", "never published") for number in numbers)


def plan(name: str = "january", monthly: bool = False) -> BackfillPlan:
    batches = [PlannedBatch(1, "revenue", days(1, 2, 3)), PlannedBatch(2, "revenue", days(4, 5, 6))]
    if monthly:
        month = (PlannedSlice("2026-01", "downstream", "it reads revenue"),)
        batches.append(PlannedBatch(3, "months", month, needs=(1, 2)))
    return BackfillPlan(name, REQUEST, tuple(batches), notes=("a note",))


def claimed(ledger: Ledger, holder: str = "me") -> BatchClaim:
    claim = ledger.backfills.claim("january", holder, MINUTE)
    assert claim is not None
    return claim


def ends(claim: BatchClaim) -> list[SliceEnd]:
    return [SliceEnd(label, "published", 10, "f") for label in claim.labels]


def test_a_plan_is_stored_whole_and_never_changed_by_a_second_one(ledger: Ledger) -> None:
    assert ledger.backfills.create(plan(monthly=True))
    assert not ledger.backfills.create(plan())
    stored = ledger.backfills.batches("january")
    assert tuple((b.number, b.task, b.slices, b.needs) for b in stored) == tuple(
        (b.number, b.task, b.slices, b.needs) for b in plan(monthly=True).batches
    )
    record = ledger.backfills.record("january")
    assert record is not None
    assert (record.request, record.state, record.notes) == (REQUEST, BackfillState.RUNNING, ("a note",))
    assert record.slices == {BatchState.PENDING: 7}


def test_an_empty_plan_is_finished_at_once(ledger: Ledger) -> None:
    assert ledger.backfills.create(BackfillPlan("nothing", REQUEST, ()))
    assert ledger.backfills.finish("nothing")
    record = ledger.backfills.record("nothing")
    assert record is not None and record.state is BackfillState.FINISHED and record.complete


def test_each_batch_is_claimed_once_in_order_and_then_none_is_left(ledger: Ledger) -> None:
    ledger.backfills.create(plan())
    first, second = claimed(ledger), claimed(ledger, "you")
    assert (first.labels, second.labels) == (
        tuple(s.label for s in days(1, 2, 3)),
        tuple(s.label for s in days(4, 5, 6)),
    )
    assert ledger.backfills.claim("january", "third", MINUTE) is None
    assert [batch.holder for batch in ledger.backfills.held("january")] == ["me", "you"]


def test_a_silent_workers_batch_goes_to_the_next_and_the_slow_one_can_say_nothing_more(
    ledger: Ledger, clock: HandClock
) -> None:
    ledger.backfills.create(plan())
    slow = claimed(ledger)
    clock.time += 2 * MINUTE
    quick = claimed(ledger, "you")
    assert (quick.number, quick.tries) == (slow.number, slow.tries + 1)
    book = ledger.backfills
    assert not book.renew(slow, MINUTE)
    assert not book.done(slow, ends(slow), 1.0)
    assert not book.failed(slow, {"what": "late"}, 1.0)
    assert not book.split(slow)
    assert not book.release(slow)
    assert book.done(quick, ends(quick), 1.0)


def test_a_batch_keeps_the_fence_of_its_first_claim(ledger: Ledger, clock: HandClock) -> None:
    """What an attempt with a higher one published was made since, and not before."""

    def begun(attempt: str) -> int:
        claim = ledger.claim(ClaimRequest("revenue", (attempt,), attempt, "run", "me"), MINUTE)
        assert isinstance(claim, Claim)
        return claim.fence

    ledger.backfills.create(plan())
    before = begun("before")
    first = claimed(ledger)
    assert before <= first.after_fence < begun("after")
    clock.time += 2 * MINUTE
    again = claimed(ledger, "you")
    assert (again.number, again.after_fence) == (first.number, first.after_fence)
    assert ledger.backfills.split(again)
    assert [claimed(ledger).after_fence, claimed(ledger).after_fence] == [first.after_fence, first.after_fence], (
        "its parts, too"
    )


def test_a_renewed_claim_is_kept(ledger: Ledger, clock: HandClock) -> None:
    ledger.backfills.create(plan())
    first = claimed(ledger)
    for _ in range(3):
        clock.time += timedelta(seconds=50)
        assert ledger.backfills.renew(first, MINUTE)
    assert claimed(ledger).number != first.number


def test_a_batch_waits_for_all_that_it_needs(ledger: Ledger) -> None:
    ledger.backfills.create(plan(monthly=True))
    first, second = claimed(ledger), claimed(ledger)
    ledger.backfills.done(second, ends(second), 1.0)
    assert ledger.backfills.claim("january", "me", MINUTE) is None
    ledger.backfills.done(first, ends(first), 1.0)
    assert claimed(ledger).labels == ("2026-01",)


def test_what_needs_a_failed_batch_is_skipped_until_it_is_tried_again(ledger: Ledger) -> None:
    ledger.backfills.create(plan(monthly=True))
    first, second = claimed(ledger), claimed(ledger)
    ledger.backfills.failed(first, {"what": "bad", "where": "revenue[2026-01-01]"}, 1.0)
    ledger.backfills.done(second, ends(second), 1.0)
    assert ledger.backfills.finish("january")
    record = ledger.backfills.record("january")
    assert record is not None
    assert (record.done, record.failed, record.open, record.state) == (3, 4, 0, BackfillState.FINISHED)
    month = ledger.backfills.batches("january")[-1]
    assert (month.state, month.error) == (
        BatchState.SKIPPED,
        {"code": "skipped", "what": "it needs revenue[2026-01-01]"},
    )
    assert ledger.backfills.again("january") == 2
    assert ledger.backfills.again("january") == 0
    assert claimed(ledger).number == first.number


def test_a_split_batch_becomes_two_in_its_place_and_is_needed_as_both(ledger: Ledger) -> None:
    ledger.backfills.create(plan(monthly=True))
    assert ledger.backfills.split(claimed(ledger))
    parts = ledger.backfills.batches("january")
    assert [[s.label[-2:] for s in batch.slices] for batch in parts] == [
        ["01", "02"],
        ["03"],
        ["04", "05", "06"],
        ["01"],
    ]
    assert sorted(parts[-1].needs) == [1, 2, 4]
    taken = [claimed(ledger) for _ in range(3)]
    assert [[label[-2:] for label in claim.labels] for claim in taken] == [["01", "02"], ["03"], ["04", "05", "06"]]
    for claim in taken[:-1]:
        ledger.backfills.done(claim, ends(claim), 1.0)
    assert ledger.backfills.claim("january", "me", MINUTE) is None
    ledger.backfills.done(taken[-1], ends(taken[-1]), 1.0)
    assert claimed(ledger).task == "months"


def test_how_a_slice_ended_is_remembered(ledger: Ledger) -> None:
    ledger.backfills.create(plan())
    claim = claimed(ledger)
    results = [
        SliceEnd("2026-01-01", "changed", 12, "f1", Comparison(False, 10, 12, {"revenue": ("5", "7")})),
        SliceEnd("2026-01-02", "identical", 10, "f2", Comparison(True, 10, 10)),
        SliceEnd("2026-01-03", "published", 3, "f3"),
    ]
    assert ledger.backfills.done(claim, results, 1.5)
    batch = ledger.backfills.batches("january")[0]
    assert (batch.ends, batch.seconds, batch.state) == (tuple(results), 1.5, BatchState.DONE)
    record = ledger.backfills.record("january")
    assert record is not None and record.rows == 25


@pytest.mark.parametrize("state", [BackfillState.PAUSED, BackfillState.CANCELLED])
def test_nothing_of_a_stopped_backfill_is_claimed(ledger: Ledger, state: BackfillState) -> None:
    ledger.backfills.create(plan())
    first = claimed(ledger)
    assert ledger.backfills.move("january", [BackfillState.RUNNING], state)
    assert not ledger.backfills.move("january", [BackfillState.RUNNING], state)
    assert ledger.backfills.claim("january", "me", MINUTE) is None
    # What is running may still be recorded.
    assert ledger.backfills.done(first, ends(first), 1.0)
    assert not ledger.backfills.finish("january")
    assert ledger.backfills.move("january", [state], BackfillState.RUNNING)
    assert claimed(ledger).number == 2


def test_a_worker_known_to_be_gone_gives_its_batch_back_and_only_its_own(ledger: Ledger) -> None:
    ledger.backfills.create(plan())
    first = claimed(ledger)
    assert not ledger.backfills.free("january", first.number, first.tries + 1)
    assert ledger.backfills.free("january", first.number, first.tries)
    assert claimed(ledger).number == first.number


def test_workers_that_claim_at_once_never_get_the_same_batch(either: str) -> None:
    many = tuple(PlannedBatch(n, "revenue", (PlannedSlice(f"day {n}", "missing", ""),)) for n in range(1, 41))
    ledgers = [Ledger.open(either) for _ in range(4)]
    ledgers[0].backfills.create(BackfillPlan("january", REQUEST, many))
    taken: list[int] = []

    def take(ledger: Ledger) -> None:
        misses = 0
        while misses < 3:
            claim = ledger.backfills.claim("january", "me", MINUTE)
            misses = 0 if claim else misses + 1
            taken.extend([claim.number] if claim else [])

    threads = [threading.Thread(target=take, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for ledger in ledgers:
        ledger.close()
    assert sorted(taken) == list(range(1, 41))


def test_a_renamed_tasks_plan_follows_it(ledger: Ledger) -> None:
    ledger.backfills.create(plan())
    ledger.rename("revenue", "income")
    assert claimed(ledger).task == "income"
    assert {batch.task for batch in ledger.backfills.batches("january")} == {"income"}
