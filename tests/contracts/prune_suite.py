"""A ledger that lets go of what is old answers everything as before. The fixture `url` is a fresh ledger's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.contracts.ledger_suite import NOON, HandClock
from tests.sample import sample

from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.backfill.result import BackfillState
from twice.core.effect import Message
from twice.core.ledger.found import FoundPublish
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.outbox import Change, EffectState, PreparedEffect
from twice.core.ledger.record import (
    TABLE,
    AttemptState,
    Busy,
    Claim,
    ClaimRequest,
    Facts,
    InputRecord,
    Pruned,
    SliceRecord,
)
from twice.core.table.mark import last_of_kind, version_of
from twice.core.table.token import Intention
from twice.ledgers.ledger import Ledger

S = AttemptState
TASKS, LABELS = ("revenue", "clicks"), ("2026-06-09", "2026-06-10", "all")
ENDS = ("published", "unchanged", "failed", "left", "abandoned", "quarantined", "open", "reset")
KINDS = (version_of(datetime(2026, 6, 9, tzinfo=timezone.utc)), version_of(date(2026, 6, 9)), version_of(7), 1)
"""Marks of every kind: a reset goes back, or to another kind."""
DAY = timedelta(days=1)


def attempt(ledger: Ledger, id_: str, task: str, label: str, end: str, effect: str | None = None) -> None:
    """One attempt at a slice, ended so; with an effect that was sent, or is to be sent."""
    kind: Any = "reset" if end == "reset" else "run"
    claim = ledger.claim(ClaimRequest(task, (label,), id_, kind, "host"), timedelta(minutes=1))
    if isinstance(claim, Busy):
        return
    run = ledger.run(task, label)
    held = run.generation if run else 0
    number = int(id_, 16)
    aim = held + 1 + number % 5  # as an incremental task's: each attempt finds the source further on
    if end == "reset":
        aim = KINDS[number % len(KINDS)] + number % 20
    ledger.fix(claim, {label: held}, {label: aim})
    if end == "open":
        return
    version = len(id_) + number % 1000
    leaf = InputRecord(label, "delta", "file:/orders", f"id of {id_}", version)
    tables = tuple(InputRecord(label, TABLE, name, None, version) for name in ("shop.orders", "shop.rates"))
    if end == "unchanged":
        ledger.close_attempt(id_, S.UNCHANGED, Facts(inputs=tables[: 1 + version % 2], why="same", version=version))
        ledger.discarded(id_)
    elif end in ("published", "reset"):
        if end == "reset":
            ledger.forget(task, label)
        _publish(ledger, claim, label, (held, aim), (leaf, *tables), effect)
    else:
        state = S.ABANDONED if end == "abandoned" else S.FAILED
        effects = (_prepared(task, label, aim),) if effect else ()
        ledger.advance(claim, S.CLAIMED, S.PUBLISHING, Facts(effects=effects))
        ledger.close_attempt(id_, state, Facts(error={"what": "it failed"}))
        if end == "quarantined":
            ledger.quarantine(id_, "no more")
        if end != "left":
            ledger.discarded(id_)


def _publish(
    ledger: Ledger, claim: Claim, label: str, at: tuple[int, int], inputs: tuple[InputRecord, ...], effect: str | None
) -> None:
    held, aim = at
    published = SliceRecord(label, held, Intention("code", claim.attempt), 3, f"print of {claim.attempt}")
    effects = (_prepared(claim.task, label, aim),) if effect else ()
    ledger.advance(claim, S.CLAIMED, S.PUBLISHING, Facts(slices=(published,), inputs=inputs, effects=effects))
    ledger.publish(claim.attempt, Facts(version=7), generations={label: aim})
    for record in ledger.outbox.of_attempt(claim.attempt):
        if record.state is not EffectState.RELEASED or effect == "released":
            continue
        ledger.outbox.render(record, Message(("here",), "text " * 100), "host")
        (pending,) = (each for each in ledger.outbox.of_attempt(claim.attempt) if each.id == record.id)
        sending = ledger.outbox.begin(pending, "host", timedelta(minutes=1))
        assert sending is not None
        ended = EffectState.SENT if effect == "sent" else EffectState.IN_DOUBT
        ledger.outbox.end(sending, Change(ended, "so", receipt="HTTP 200"), "host")


def _prepared(task: str, label: str, generation: int) -> PreparedEffect:
    return PreparedEffect(
        key=f"{task}/{label}/{generation}",
        label=label,
        name="mail",
        kind="email",
        occasion=str(generation),
        generation=generation,
        fingerprint=f"f{generation}",
        keyed=False,
        remembers=DAY,
        again="on_restate",
    )


def answers(ledger: Ledger) -> dict[str, Any]:
    """Everything that a run, a plan, a status, a retry or an effect is decided by."""
    found: dict[str, Any] = {"runs": ledger.runs(), "overview": ledger.overview(None, 100)}
    found["open"], found["left"] = ledger.open_attempts(), ledger.undiscarded()
    found["may still land"] = [ledger.outbox.of_attempt(each.id) for each in (*found["open"], *found["left"])]
    for task in TASKS:
        found[f"inputs of {task}"] = ledger.inputs(task)
        found[f"quarantined of {task}"] = ledger.quarantined(task)
        for run in ledger.runs(task):
            found[f"end of {task}[{run.label}]"] = ledger.frozen_aim(task, run.label, run.generation)
            furthest = [ledger.furthest_aim(task, run.label, last_of_kind(kind)) for kind in KINDS]
            found[f"furthest of {task}[{run.label}]"] = furthest
            last = ledger.outbox.last_counted(task, run.label, "mail")
            found[f"effect of {task}[{run.label}]"] = last and (last.id, last.key, last.occasion, last.state)
            found[f"last of {task}[{run.label}]"] = ledger.attempts(task, run.label, 1)
    waiting = [state for state in EffectState if state not in (EffectState.CANCELLED, EffectState.SENT)]
    found["effects"] = ledger.outbox.listed(waiting, None, 1000)
    found["sent"] = [(e.id, e.key, e.occasion) for e in ledger.outbox.in_state(EffectState.SENT)]
    found["looks"] = still_about(ledger)
    found["backfills"] = [r for r in ledger.backfills.records() if r.state is not BackfillState.FINISHED]
    return found


def still_about(ledger: Ledger) -> list[tuple[str, str]]:
    """What the last looks say of the slices of now."""
    runs = {(run.task, run.label): run for run in ledger.runs()}
    found = [(name, each, runs.get((name, each.label))) for name, look in ledger.looks().items() for each in look.seen]
    return [(name, each.label) for name, each, run in found if run is not None and each.is_about(run)]


def look(ledger: Ledger, task: str) -> None:
    """At all that is published: it is not right."""
    published = [run for run in ledger.runs(task) if run.generation]
    seen = [SeenSlice(run.label, "stale", "so", run.generation, run.attempt, run.last_attempt) for run in published]
    ledger.record_look(Look(task, ledger.now(), "code", len(published), tuple(seen)))


def played(ledger: Ledger, clock: HandClock, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    for at in range(steps):
        attempt(
            ledger,
            f"{seed:x}{at:06x}",
            chance.choice(TASKS),
            chance.choice(LABELS),
            chance.choice(ENDS[:3] * 2 + ENDS),
            chance.choice((None, "sent", "released", "in_doubt")),
        )
        if at % 9 == 0:
            look(ledger, chance.choice(TASKS))
        clock.tick(chance.randrange(2 * 24 * 3600))


class PruneSuite:
    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def ledger(self, url: str, clock: HandClock) -> Iterator[Ledger]:
        opened = Ledger.open(url, clock)
        yield opened
        opened.close()

    @pytest.mark.parametrize("seed", sample([1, 2, 3], of=[1]))
    def test_everything_is_answered_as_before_whatever_went(self, ledger: Ledger, clock: HandClock, seed: int) -> None:
        for days in (20, 1, 60):
            played(ledger, clock, seed * 10 + days, 40)
            before, count = answers(ledger), len(list(ledger.export()))
            gone = ledger.prune(clock.now() - days * DAY)
            assert answers(ledger) == before
            assert gone.attempts and len(list(ledger.export())) < count
            assert ledger.prune(clock.now() - days * DAY) == Pruned()

    def test_a_slice_that_is_looked_at_every_hour_for_a_year_keeps_a_bounded_history(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        attempt(ledger, "f0", "revenue", "all", "published", "sent")
        sizes = []
        for month in range(6):
            for at in range(60):
                attempt(ledger, f"a{month}{at:03x}", "revenue", "all", "unchanged")
                clock.tick(12 * 3600)
            ledger.prune(clock.now() - 30 * DAY)
            sizes.append(len(list(ledger.export())))
        assert len(set(sizes[1:])) == 1, sizes
        assert ledger.runs("revenue")[0].attempt == "f0"
        assert ledger.attempt("f0") is not None

    def test_of_old_attempts_those_stay_that_something_is_decided_by(self, ledger: Ledger, clock: HandClock) -> None:
        ends = {"5": "published", "1": "failed", "4": "failed", "2": "unchanged", "3": "failed"}
        for id_, end in ends.items():
            attempt(ledger, id_, "revenue", "all", end)
            clock.tick(60)
        clock.tick(100 * 24 * 3600)
        before = answers(ledger)
        assert ledger.prune(clock.now() - 90 * DAY) == Pruned(attempts=1)
        assert answers(ledger) == before
        assert [each.id for each in ledger.attempts("revenue")] == ["3", "2", "1", "5"]

    def test_what_a_look_found_goes_with_age_once_the_slice_was_tried_since(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        for label, id_ in (("2026-06-09", "5"), ("2026-06-10", "a"), ("all", "f")):
            attempt(ledger, id_, "revenue", label, "published")
        look(ledger, "revenue")
        attempt(ledger, "14", "revenue", "2026-06-10", "published")
        attempt(ledger, "19", "revenue", "all", "unchanged")
        assert ledger.prune(clock.now() - DAY) == Pruned()
        clock.tick(2 * 24 * 3600)
        assert ledger.prune(clock.now() - DAY).looks == 2
        assert [each.label for each in ledger.looks()["revenue"].seen] == ["2026-06-09"]
        assert ledger.prune(clock.now() - DAY) == Pruned()

    def test_what_an_adopted_slice_was_found_to_be_made_of_stays(self, ledger: Ledger, clock: HandClock) -> None:
        made_of = Intention("code", "inputs")
        ledger.record_found("revenue", [FoundPublish("all", 3, "lost", made_of, 12)])
        leaf = InputRecord("all", "delta", "file:/orders", "its files", 5)
        for at in range(4):
            held = ledger.claim(ClaimRequest("revenue", ("all",), f"{at}", "run", "host"), timedelta(minutes=1))
            assert isinstance(held, Claim)
            pin = InputRecord("all", TABLE, "shop.orders", None, 5 + at)
            found = Facts(slices=(SliceRecord("all", intention=made_of),), inputs=(leaf, pin) if at == 0 else (pin,))
            ledger.close_attempt(held.attempt, S.UNCHANGED, found)
        clock.tick(100 * 24 * 3600)
        before = answers(ledger)
        assert ledger.prune(clock.now() - 90 * DAY) == Pruned(attempts=2)
        assert answers(ledger) == before
        assert {record.kind: record.version for record in ledger.inputs("revenue")["all"]} == {"delta": 5, TABLE: 8}

    def test_of_a_sent_effect_stays_that_it_was_sent(self, ledger: Ledger, clock: HandClock) -> None:
        attempt(ledger, "5", "revenue", "all", "published", "sent")
        attempt(ledger, "a", "revenue", "all", "failed", "sent")
        clock.tick(100 * 24 * 3600)
        assert ledger.prune(clock.now() - 90 * DAY) == Pruned(effects=1, texts=1)
        (effect,) = ledger.outbox.listed((), None, 10)
        assert (effect.state, effect.message, effect.receipt) == (EffectState.SENT, None, None)
        assert ledger.outbox.remember_unknown("revenue", [_prepared("revenue", "all", 1)]) == 0
        assert ledger.outbox.events(effect.id) == ()

    def test_the_effect_of_an_attempt_that_may_still_land_stays_and_is_sent_if_it_does(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        attempt(ledger, "5", "revenue", "all", "left", "sent")
        clock.tick(100 * 24 * 3600)
        assert ledger.prune(clock.now() - 90 * DAY) == Pruned()
        ledger.publish("5", Facts(version=7), generations={"all": 1})
        assert [effect.state for effect in ledger.outbox.of_attempt("5")] == [EffectState.RELEASED]

    def test_how_far_a_mark_has_been_stays_known_when_it_was_set_back(self, ledger: Ledger, clock: HandClock) -> None:
        ends = {"1": "published", "2": "published", "4": "published", "3": "reset", "6": "published", "8": "unchanged"}
        for id_, end in ends.items():
            attempt(ledger, id_, "revenue", "all", end)
            clock.tick(60)
        clock.tick(100 * 24 * 3600)
        before = answers(ledger)
        assert ledger.prune(clock.now() - 90 * DAY) == Pruned(attempts=2)
        assert answers(ledger) == before
        assert ledger.furthest_aim("revenue", "all", last_of_kind(1)) == 10
        assert [run.generation for run in ledger.runs("revenue")] == [6]

    def test_a_backfill_that_is_over_goes_unless_it_restates(self, ledger: Ledger, clock: HandClock) -> None:
        for name, restate in (("empty", False), ("again", True), ("running", False)):
            request = BackfillRequest("revenue", "2026-06-09", "2026-06-09", restate=restate)
            slices = (PlannedSlice("2026-06-09", "missing", "never published", 0),)
            batch = PlannedBatch(1, "revenue", slices)
            ledger.backfills.create(BackfillPlan(name, request, () if name == "empty" else (batch,)))
            if name == "again":
                ledger.backfills.move(name, (BackfillState.RUNNING,), BackfillState.CANCELLED)
            else:
                ledger.backfills.finish(name)
        clock.tick(100 * 24 * 3600)
        assert ledger.prune(clock.now() - 90 * DAY) == Pruned(backfills=1)
        assert [record.name for record in ledger.backfills.records()] == ["again", "running"]
        assert clock.now() > NOON
