"""Of a ledger that serves many environments one is dropped, whole, and nothing else. `url` is a fresh ledger's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, event
from tests.contracts.ledger_suite import NOON, HandClock
from tests.contracts.prune_suite import attempt

from twice.core.audit import AuditResult
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.ledger.environment import (
    DroppedEnvironment,
    EnvironmentDrop,
    EnvironmentRecords,
    Unfinished,
)
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.outbox import Change, EffectState, PreparedEffect
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.results.proof import Proof
from twice.ledgers.database.schema import metadata
from twice.ledgers.ledger import Ledger
from twice.ledgers.runs import drop

S = AttemptState
E = EffectState
UNSETTLED = (E.RELEASED, E.PENDING, E.SENDING, E.IN_DOUBT, E.DEAD, E.UNKNOWN)
DAY, NEXT = "2026-06-09", "2026-06-10"
MINUTE = timedelta(minutes=1)
DECISION = EnvironmentDrop("1", "ana", "its branch is merged")
PLAN = BackfillPlan(
    "june",
    BackfillRequest("revenue", DAY, NEXT),
    (
        PlannedBatch(1, "revenue", (PlannedSlice(DAY, "missing", "never published"),), "run"),
        PlannedBatch(2, "clicks", (PlannedSlice(DAY, "downstream", "reads it"),), "run", needs=(1,)),
    ),
)

Open = Callable[..., Ledger]


def fill(ledger: Ledger, number: int) -> None:
    """Something of everything; in a minute nothing is at work, and no effect waits for anything."""
    for at, end in enumerate(("published", "unchanged", "failed", "quarantined", "left", "open")):
        for task in ("revenue", "clicks"):
            id_ = f"{number:x}{at:x}{task == 'clicks':x}"
            attempt(ledger, id_, task, f"{DAY}-{at}", end, "sent")
    seen = SeenSlice(f"{DAY}-0", "stale", "its input changed", 1, "a", "a")
    ledger.record_look(Look("revenue", ledger.now(), "code", 3, (seen,)))
    ledger.record_proof(Proof("revenue", DAY, "code", ledger.now(), (), 0.0))
    assert ledger.backfills.create(PLAN)
    claim = claimed(ledger, f"{number:x}f", "audited")
    audits = (AuditResult("rows", "error", True, "7 rows"),)
    ledger.advance(claim, S.CLAIMED, S.STAGED, Facts(audits=audits, code_parts={"code": {"write=": "1"}}))
    ledger.close_attempt(claim.attempt, S.FAILED)


def claimed(ledger: Ledger, id_: str, label: str) -> Claim:
    claim = ledger.claim(ClaimRequest("revenue", [label], id_, "run", "host"), MINUTE)
    assert isinstance(claim, Claim)
    return claim


def publish_with_effect(ledger: Ledger, id_: str, label: str, state: EffectState) -> None:
    claim = claimed(ledger, id_, label)
    ledger.fix(claim, {label: 0})
    effect = PreparedEffect("key", label, "tell", "call", "", "never", 1, None, False, MINUTE)
    ledger.advance(claim, S.CLAIMED, S.PUBLISHING, Facts(effects=(effect,)))
    ledger.publish(id_, Facts(), generations={label: 1})
    (record,) = ledger.outbox.of_attempt(id_)
    if state is not EffectState.RELEASED:
        assert ledger.outbox.change(record, Change(state, "for the test"), "test")


def rows(ledger: Ledger) -> Counter[tuple[str, str]]:
    """Every row of the ledger, by table, but for what stays on record of a drop."""
    return Counter((row["table"], str(row)) for row in ledger.export() if row.get("table", "dropped") != "dropped")


@contextmanager
def dying_at_commit(number: int) -> Iterator[None]:
    """The nth commit of this process does not happen, and nothing after it."""
    left = number

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    event.listen(Engine, "commit", count)
    try:
        yield
    finally:
        event.remove(Engine, "commit", count)


def meanwhile(monkeypatch: pytest.MonkeyPatch, before: str, act: Callable[[], object]) -> None:
    """What another process does before the next drop comes to this step."""

    def steps() -> Iterator[Any]:
        for step in drop.STEPS:
            if step.__name__ == before:
                act()
            yield step

    monkeypatch.setattr("twice.ledgers.runs.environments.STEPS", steps())


class EnvironmentSuite:
    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def opened(self, url: str, clock: HandClock) -> Iterator[Open]:
        ledgers: list[Ledger] = []

        def open_(environment: str, project: str = "p") -> Ledger:
            tables = {name: TaskTable(environment, f"delta:shop.{name}") for name in ("revenue", "clicks")}
            ledgers.append(Ledger.open(url, clock, owner=RecordOwner(project, environment, tables)))
            return ledgers[-1]

        yield open_
        for ledger in ledgers:
            ledger.close()

    def test_a_dropped_environment_leaves_no_row_in_any_table_and_others_lose_none(
        self, opened: Open, clock: HandClock
    ) -> None:
        prod, other = opened("prod"), opened("preview", "q")
        fill(prod, 1)
        fill(other, 2)
        before = rows(prod)
        fill(opened("preview"), 3)
        added = {table for table, _ in rows(prod) - before}
        assert added == {table.name.removeprefix("twice_") for table in metadata.sorted_tables} - {"dropped"}
        clock.tick(61)
        gone = prod.environments.drop("preview", DECISION)
        assert isinstance(gone, EnvironmentRecords) and (gone.tasks, gone.attempts, gone.open) == (2, 13, 2)
        assert rows(prod) == before

    def test_who_dropped_it_when_and_why_stays_and_a_second_drop_finds_nothing(
        self, opened: Open, clock: HandClock
    ) -> None:
        prod = opened("prod")
        fill(opened("preview"), 1)
        clock.tick(61)
        for known in (True, False):
            assert (prod.environments.drop("preview", DECISION) is not None) is known
        made = DroppedEnvironment("p", "preview", NOON + timedelta(seconds=61), "ana", "its branch is merged")
        assert prod.environments.dropped() == (made,)
        assert [found.environment for found in prod.environments.listed()] == ["prod"]

    def test_what_there_is_of_each_environment_is_counted(self, opened: Open, clock: HandClock) -> None:
        prod = opened("prod")
        fill(opened("preview", "q"), 1)
        clock.tick(5)
        publish_with_effect(opened("preview"), "a", NEXT, EffectState.IN_DOUBT)
        ended = {EffectState.SENT: 2, EffectState.CANCELLED: 6}
        later, in_doubt = NOON + timedelta(seconds=5), {EffectState.IN_DOUBT: 1}
        assert prod.environments.listed() == (
            EnvironmentRecords("p", "preview", 2, 1, 1, effects=in_doubt, newest=later),
            EnvironmentRecords("p", "prod", 2),
            EnvironmentRecords("q", "preview", 2, 13, 13, open=2, backfills=1, proofs=1, effects=ended, newest=NOON),
        )

    def test_it_is_not_dropped_while_an_attempt_of_it_is_at_work(self, opened: Open, clock: HandClock) -> None:
        prod, preview = opened("prod"), opened("preview")
        claimed(preview, "a", DAY)
        before = rows(prod)
        clock.tick(59)
        found = prod.environments.drop("preview", DECISION)
        assert isinstance(found, Unfinished) and not found.begun
        (work,) = found.at_work
        assert (work.where, work.holder, work.until) == (f"revenue[{DAY}]", "host", NOON + MINUTE)
        assert found == prod.environments.unfinished("preview")
        assert rows(prod) == before and prod.environments.dropped() == ()
        clock.tick(1)
        assert isinstance(prod.environments.drop("preview", DECISION), EnvironmentRecords)

    def test_it_is_not_dropped_while_a_worker_has_a_batch_of_it(self, opened: Open, clock: HandClock) -> None:
        prod, preview = opened("prod"), opened("preview")
        assert preview.backfills.create(PLAN) and preview.backfills.claim("june", "worker", MINUTE)
        before = rows(prod)
        found = prod.environments.drop("preview", DECISION)
        assert isinstance(found, Unfinished)
        assert [(work.where, work.holder) for work in found.at_work] == [("batch 1 of backfill june", "worker")]
        assert rows(prod) == before
        clock.tick(61)
        assert isinstance(prod.environments.drop("preview", DECISION), EnvironmentRecords)

    @pytest.mark.parametrize("state", list(EffectState))
    def test_it_is_not_dropped_while_an_effect_of_it_is_not_settled(self, opened: Open, state: EffectState) -> None:
        prod, preview = opened("prod"), opened("preview")
        publish_with_effect(preview, "a", NEXT, state)
        publish_with_effect(prod, "b", NEXT, EffectState.PENDING)
        before, found = rows(prod), prod.environments.drop("preview", DECISION)
        if state not in UNSETTLED:
            assert isinstance(found, EnvironmentRecords) and found.effects == {state: 1}
            return
        assert isinstance(found, Unfinished) and found.effects == {state: 1}
        assert [(each.where, each.state) for each in found.first] == [(f"revenue[{NEXT}] tell", state)]
        assert rows(prod) == before

    @pytest.mark.parametrize("reached", [S.AUDITED, S.PUBLISHING])
    def test_what_an_attempt_has_prepared_that_may_have_landed_keeps_it(
        self, opened: Open, clock: HandClock, reached: AttemptState
    ) -> None:
        prod, preview = opened("prod"), opened("preview")
        claim = claimed(preview, "a", NEXT)
        preview.fix(claim, {NEXT: 0})
        effect = PreparedEffect("key", NEXT, "tell", "call", "", "never", 1, None, False, MINUTE)
        preview.advance(claim, S.CLAIMED, reached, Facts(effects=(effect,)))
        clock.tick(3600)
        found = prod.environments.drop("preview", DECISION)
        if reached is S.AUDITED:
            assert isinstance(found, EnvironmentRecords)
            return
        assert isinstance(found, Unfinished) and found.effects == {E.PREPARED: 1}
        assert [each.where for each in found.first] == [f"revenue[{NEXT}] tell"]
        (record,) = preview.outbox.of_attempt("a")
        assert preview.outbox.change(record, Change(E.ABANDONED, "its table is gone"), "ana")
        assert isinstance(prod.environments.drop("preview", DECISION), EnvironmentRecords)

    def test_whoever_dies_in_the_middle_leaves_the_rest_to_the_next_call_and_what_was_sent_goes_last(
        self, opened: Open, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(drop, "PART", 1)
        prod, ended, deaths = opened("prod"), False, 0
        before = rows(prod)
        while not ended:
            deaths += 1
            preview = opened("preview")
            for at in range(2):
                publish_with_effect(preview, f"{deaths} {at}", f"{DAY}-{at}", EffectState.SENT)
            try:
                with dying_at_commit(deaths):
                    prod.environments.drop("preview", EnvironmentDrop(str(deaths), "ana", "dies"))
                ended = True
            except KeyboardInterrupt:
                left = preview.attempts("revenue") or preview.runs()
                assert not left or preview.outbox.counts() == {EffectState.SENT: 2}
                prod.environments.drop("preview", EnvironmentDrop(f"{deaths} again", "ana", "goes on"))
            assert rows(prod) == before
        assert deaths > 8

    def test_a_run_that_begins_in_between_stops_the_drop_and_is_itself_untouched(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prod, preview = opened("prod"), opened("preview")
        publish_with_effect(preview, "old", DAY, EffectState.SENT)
        claims: list[Claim] = []
        meanwhile(monkeypatch, "drop_effects", lambda: claims.append(claimed(preview, "new", DAY)))
        found = prod.environments.drop("preview", DECISION)
        assert isinstance(found, Unfinished) and found.begun and len(found.at_work) == 1
        (claim,) = claims
        preview.fix(claim, {DAY: 1})
        preview.advance(claim, S.CLAIMED, S.PUBLISHING)
        preview.publish("new", Facts(), generations={DAY: 2})
        assert [run.generation for run in preview.runs()] == [2]
        assert preview.outbox.counts() == {EffectState.SENT: 1}

    def test_one_that_began_and_ended_in_between_goes_with_the_rest(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prod = opened("prod")
        before = rows(prod)
        preview = opened("preview")
        publish_with_effect(preview, "old", DAY, EffectState.SENT)
        run = partial(publish_with_effect, preview, "new", NEXT, EffectState.SENT)
        meanwhile(monkeypatch, "drop_attempts", run)
        assert isinstance(prod.environments.drop("preview", DECISION), EnvironmentRecords)
        assert rows(prod) == before

    def test_the_name_of_a_task_that_is_claimed_with_in_this_moment_stays(self, opened: Open) -> None:
        """The claim found it registered; without it the attempt would be nobody's."""
        prod, preview = opened("prod"), opened("preview")
        claimed(preview, "new", DAY)
        with prod._writing() as connection:
            drop.drop_tasks(connection, [preview.owner.key(name) for name in ("revenue", "clicks")])
        assert [(found.environment, found.tasks) for found in prod.environments.listed()] == [
            ("preview", 1),
            ("prod", 2),
        ]
        assert [found.id for found in preview.open_attempts()] == ["new"]

    def test_the_ledger_as_another_environment_sees_it_reads_that_ones_records_and_moves_none(
        self, opened: Open
    ) -> None:
        prod, preview = opened("prod"), opened("preview")
        publish_with_effect(preview, "a", NEXT, EffectState.IN_DOUBT)
        before, there = rows(prod), prod.of_environment("preview")
        assert there.outbox.listed((), None, 9) == preview.outbox.listed((), None, 9) != ()
        assert prod.outbox.listed((), None, 9) == ()
        assert prod.of_environment("elsewhere").outbox.counts() == {}
        assert rows(prod) == before
