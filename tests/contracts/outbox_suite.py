"""What every ledger promises of its outbox. A test module gives the fixture `url` of a fresh database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from tests.contracts.ledger_suite import NOON, HandClock, LedgerSuite, claim, processes
from tests.processes.ledger_processes import MINUTE

from twice import webhook
from twice.core.effect import Message
from twice.core.ledger.outbox import (
    Change,
    Delivered,
    EffectRecord,
    EffectState,
    PreparedEffect,
    PublishedGeneration,
    Refused,
    after_answer,
    after_silence,
    prepare,
)
from twice.core.ledger.record import AttemptState, Facts
from twice.ledgers.ledger import Ledger

S = EffectState
A = AttemptState
HELLO = Message(("https://example.com/hook",), '{"rows":3}')


def prepared(again: Any = "never", generation: int = 1, fingerprint: str = "f", **options: Any) -> PreparedEffect:
    effect = webhook("https://example.com/hook", body="x", again=again, **options)
    return prepare("p", "revenue", effect, PublishedGeneration("a", generation, fingerprint))


def publishing(ledger: Ledger, attempt: str, *effects: PreparedEffect) -> None:
    """An attempt with its intent and its effects on record, about to ask the target. Its lease is over at once."""
    held = claim(ledger, attempt, lease=timedelta(0))
    ledger.advance(held, A.CLAIMED, A.PUBLISHING, Facts(effects=effects))


def landed(ledger: Ledger, attempt: str, *effects: PreparedEffect, generation: int = 1) -> tuple[EffectRecord, ...]:
    publishing(ledger, attempt, *effects)
    ledger.publish(attempt, Facts(version=generation), generations={"a": generation})
    return ledger.outbox.of_attempt(attempt)


def pending(ledger: Ledger, attempt: str = "one", **options: Any) -> EffectRecord:
    (effect,) = landed(ledger, attempt, prepared(**options))
    assert ledger.outbox.render(effect, HELLO, "host")
    return now(ledger, effect)


def now(ledger: Ledger, effect: EffectRecord) -> EffectRecord:
    found = ledger.outbox.find(effect.id)
    assert found is not None
    return found


def states(ledger: Ledger, attempt: str) -> list[EffectState]:
    return [effect.state for effect in ledger.outbox.of_attempt(attempt)]


class OutboxSuite(LedgerSuite):
    def test_an_effect_is_on_record_before_the_publish_and_waits_for_it(self, ledger: Ledger) -> None:
        publishing(ledger, "one", prepared(idempotency_key=True, key_lifetime=MINUTE))
        (effect,) = ledger.outbox.of_attempt("one")
        assert (effect.state, effect.task, effect.label, effect.name) == (S.PREPARED, "revenue", "a", "webhook")
        assert (effect.keyed, effect.remembers, effect.prepared, len(effect.key)) == (True, MINUTE, NOON, 64)
        assert ledger.outbox.due(None, 10) == ()

    def test_an_intent_that_cannot_be_recorded_with_its_effects_is_not_recorded_at_all(self, ledger: Ledger) -> None:
        held = claim(ledger, "one")
        twins = (prepared(), replace(prepared(), label=""))
        with pytest.raises(IntegrityError):
            ledger.advance(held, A.CLAIMED, A.PUBLISHING, Facts(effects=twins))
        record = ledger.attempt("one")
        assert record is not None
        assert record.state is A.CLAIMED
        assert ledger.outbox.of_attempt("one") == ()

    def test_what_landed_is_released_in_the_same_breath(self, ledger: Ledger) -> None:
        (effect,) = landed(ledger, "one", prepared())
        assert (effect.state, effect.message) == (S.RELEASED, None)
        ledger.publish("one", Facts(), generations={"a": 1})
        assert states(ledger, "one") == [S.RELEASED], "a second call changes nothing"

    @pytest.mark.parametrize("end", [A.FAILED, A.REJECTED, A.SUPERSEDED, A.ABANDONED])
    def test_what_did_not_land_is_cancelled(self, ledger: Ledger, end: AttemptState) -> None:
        publishing(ledger, "one", prepared())
        ledger.close_attempt("one", end)
        (effect,) = ledger.outbox.of_attempt("one")
        assert (effect.state, effect.why) == (S.CANCELLED, f"the attempt ended as {end.value}")

    def test_an_attempt_thought_dead_that_landed_after_all_is_announced(self, ledger: Ledger) -> None:
        publishing(ledger, "one", prepared())
        ledger.close_attempt("one", A.ABANDONED)
        ledger.publish("one", Facts(), generations={"a": 1})
        assert states(ledger, "one") == [S.RELEASED]

    def test_of_two_attempts_at_one_occasion_the_one_that_landed_sends_its_effect(self, ledger: Ledger) -> None:
        publishing(ledger, "slow", prepared())
        ledger.close_attempt("slow", A.ABANDONED)
        publishing(ledger, "quick", prepared())
        ledger.publish("slow", Facts(), generations={"a": 1})
        ledger.close_attempt("quick", A.SUPERSEDED)
        assert (states(ledger, "slow"), states(ledger, "quick")) == ([S.RELEASED], [S.CANCELLED])

    def test_if_both_landed_the_second_finds_it_sent(self, ledger: Ledger) -> None:
        publishing(ledger, "one", prepared())
        publishing(ledger, "two", prepared())
        ledger.publish("one", Facts(), generations={"a": 1})
        ledger.publish("two", Facts(), generations={"a": 2})
        assert states(ledger, "one") == [S.RELEASED]
        (second,) = ledger.outbox.of_attempt("two")
        assert (second.state, second.why) == (S.CANCELLED, "sent for attempt one")

    def test_never_again_is_once_per_slice(self, ledger: Ledger) -> None:
        pending(ledger)
        assert landed(ledger, "two", prepared(generation=2, fingerprint="g"), generation=2) == ()

    def test_on_restate_sends_once_for_every_generation(self, ledger: Ledger) -> None:
        pending(ledger, again="on_restate")
        (second,) = landed(ledger, "two", prepared("on_restate", 2), generation=2)
        assert second.state is S.RELEASED

    def test_when_changed_sends_for_other_rows_also_when_they_change_back(self, ledger: Ledger) -> None:
        pending(ledger, again="when_changed")
        assert landed(ledger, "two", prepared("when_changed", 2, "f"), generation=2) == ()
        assert len(landed(ledger, "three", prepared("when_changed", 3, "g"), generation=3)) == 1
        assert len(landed(ledger, "four", prepared("when_changed", 4, "f"), generation=4)) == 1

    def test_a_cancelled_effect_leaves_its_occasion_free(self, ledger: Ledger) -> None:
        publishing(ledger, "one", prepared())
        ledger.close_attempt("one", A.FAILED)
        assert [effect.state for effect in landed(ledger, "two", prepared())] == [S.RELEASED]

    def test_text_is_stored_once_and_a_second_one_is_refused(self, ledger: Ledger) -> None:
        effect = pending(ledger)
        assert not ledger.outbox.render(effect, Message(("https://example.com",), "other"), "host")
        assert now(ledger, effect).message == HELLO

    def test_sending_is_committed_with_its_sender_and_only_for_one(self, ledger: Ledger) -> None:
        effect = pending(ledger)
        begun = ledger.outbox.begin(effect, "host:1", MINUTE)
        assert begun is not None
        assert (begun.state, begun.sender, begun.until, begun.fence) == (S.SENDING, "host:1", NOON + MINUTE, 1)
        assert begun.doubt_since == NOON, "dying from here on leaves doubt"
        assert ledger.outbox.begin(effect, "host:2", MINUTE) is None
        assert ledger.outbox.holds(begun)

    def test_what_was_sent_keeps_its_receipt(self, ledger: Ledger) -> None:
        begun = ledger.outbox.begin(pending(ledger), "host:1", MINUTE)
        assert begun is not None
        assert ledger.outbox.end(begun, after_answer(begun, Delivered("200"), None, NOON), "host:1")
        found = now(ledger, begun)
        assert (found.state, found.receipt, found.sender, found.doubt_since) == (S.SENT, "200", None, None)

    def test_a_try_judged_silent_holds_no_more_and_its_sender_stays_named(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        begun = ledger.outbox.begin(pending(ledger), "host:1", MINUTE)
        assert begun is not None
        assert ledger.outbox.not_reporting(None) == ()
        clock.tick(60)
        (silent,) = ledger.outbox.not_reporting(None)
        assert ledger.outbox.change(silent, after_silence(silent, ledger.now()), "host:2")
        assert not ledger.outbox.holds(begun)
        assert (now(ledger, begun).state, now(ledger, begun).sender) == (S.IN_DOUBT, "host:1")

    def test_a_person_s_word_is_not_undone_by_a_sender_that_wakes_up(self, ledger: Ledger, clock: HandClock) -> None:
        begun = ledger.outbox.begin(pending(ledger), "host:1", MINUTE)
        assert begun is not None
        clock.tick(60)
        ledger.outbox.change(begun, after_silence(begun, ledger.now()), "host:2")
        ledger.outbox.change(now(ledger, begun), Change(S.ABANDONED, "enough"), "ana")
        assert not ledger.outbox.end(begun, Change(S.PENDING, "refused"), "host:1")
        assert now(ledger, begun).state is S.ABANDONED

    def test_a_sender_that_wakes_up_and_surely_sent_nothing_settles_the_doubt(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        begun = ledger.outbox.begin(pending(ledger), "host:1", MINUTE)
        assert begun is not None
        clock.tick(60)
        ledger.outbox.change(begun, after_silence(begun, ledger.now()), "host:2")
        assert ledger.outbox.end(begun, after_answer(begun, Refused("too late"), None, ledger.now()), "host:1")
        assert now(ledger, begun).state is S.PENDING

    def test_a_receipt_that_comes_late_settles_the_doubt(self, ledger: Ledger, clock: HandClock) -> None:
        begun = ledger.outbox.begin(pending(ledger), "host:1", MINUTE)
        assert begun is not None
        clock.tick(60)
        ledger.outbox.change(begun, after_silence(begun, ledger.now()), "host:2")
        assert ledger.outbox.end(begun, Change(S.SENT, "", receipt="200"), "host:1")
        assert now(ledger, begun).state is S.SENT

    def test_an_older_try_cannot_end_a_newer_one(self, ledger: Ledger, clock: HandClock) -> None:
        first = ledger.outbox.begin(pending(ledger, idempotency_key=True), "host:1", MINUTE)
        assert first is not None
        clock.tick(60)
        ledger.outbox.change(first, after_silence(first, ledger.now()), "host:2")
        second = ledger.outbox.begin(first, "host:2", MINUTE)
        assert second is not None
        assert (second.fence, second.doubt_since) == (2, NOON)
        assert not ledger.outbox.holds(first)
        assert not ledger.outbox.end(first, Change(S.SENT, ""), "host:1")

    def test_an_effect_is_not_tried_before_its_time(self, ledger: Ledger, clock: HandClock) -> None:
        begun = ledger.outbox.begin(pending(ledger), "host:1", MINUTE)
        assert begun is not None
        ledger.outbox.end(begun, Change(S.PENDING, "429", NOON + MINUTE), "host:1")
        assert ledger.outbox.due(None, 10) == ()
        assert ledger.outbox.begin(begun, "host:1", MINUTE) is None
        assert ledger.outbox.next_due(None) == NOON + MINUTE
        clock.tick(60)
        assert len(ledger.outbox.due(None, 10)) == 1

    def test_every_step_is_remembered_with_who_when_and_why(self, ledger: Ledger, clock: HandClock) -> None:
        effect = pending(ledger)
        clock.tick(1)
        ledger.outbox.change(effect, Change(S.ABANDONED, "wrong channel"), "ana@laptop")
        steps = ledger.outbox.events(effect.id)
        assert [step.state for step in steps] == [S.PREPARED, S.RELEASED, S.PENDING, S.ABANDONED]
        last = steps[-1]
        assert (last.who, last.why, last.at) == ("ana@laptop", "wrong channel", NOON + timedelta(seconds=1))

    def test_after_a_lost_ledger_nothing_is_sent_by_itself(self, ledger: Ledger) -> None:
        assert ledger.outbox.remember_unknown("revenue", [prepared()]) == 1
        assert ledger.outbox.remember_unknown("revenue", [prepared()]) == 0
        assert landed(ledger, "one", prepared(generation=2), generation=2) == ()
        assert ledger.outbox.due(None, 10) == ()
        assert ledger.outbox.counts() == {S.UNKNOWN: 1}

    def test_when_changed_compares_with_the_last_rows_that_are_known_also_behind_a_publish_that_is_not(
        self, ledger: Ledger
    ) -> None:
        assert landed(ledger, "one", prepared("when_changed"))
        unknown = replace(prepared("when_changed", 2), fingerprint=None, occasion="2:None")
        assert ledger.outbox.remember_unknown("revenue", [unknown]) == 1
        assert landed(ledger, "three", prepared("when_changed", 3), generation=3) == ()
        assert landed(ledger, "four", prepared("when_changed", 4, "g"), generation=4)

    def test_a_renamed_task_keeps_what_it_sent(self, ledger: Ledger) -> None:
        pending(ledger)
        ledger.rename("revenue", "revenue_daily")
        held = claim(ledger, "two", task="revenue_daily")
        effect = prepare(
            "p", "revenue_daily", webhook("https://example.com", body="x"), PublishedGeneration("a", 2, "g")
        )
        ledger.advance(held, A.CLAIMED, A.PUBLISHING, Facts(effects=(effect,)))
        assert ledger.outbox.of_attempt("two") == ()
        assert ledger.outbox.last_counted("revenue_daily", "a", "webhook") is not None

    def test_a_rename_onto_a_task_that_spoke_too_keeps_both_on_record(self, ledger: Ledger) -> None:
        pending(ledger)
        other = prepare("p", "new", webhook("https://example.com", body="x"), PublishedGeneration("a", 1, "g"))
        held = claim(ledger, "two", task="new", lease=timedelta(0))
        ledger.advance(held, A.CLAIMED, A.PUBLISHING, Facts(effects=(other,)))
        ledger.publish("two", Facts(), generations={"a": 1})
        ledger.rename("revenue", "new")
        assert len(ledger.outbox.listed((), "new", 10)) == 2

    def test_lists_are_newest_first_and_by_state(self, ledger: Ledger) -> None:
        effect = pending(ledger)
        (other,) = landed(ledger, "two", prepared("on_restate", 2), generation=2)
        assert [found.id for found in ledger.outbox.listed((), None, 10)] == [other.id, effect.id]
        assert [found.id for found in ledger.outbox.listed((S.PENDING,), "revenue", 10)] == [effect.id]
        assert ledger.outbox.listed((), "nobody", 10) == ()
        assert ledger.outbox.counts() == {S.PENDING: 1, S.RELEASED: 1}

    def test_processes_that_take_from_one_outbox_each_take_other_effects(
        self, ledger: Ledger, url: str, tmp_path: Path
    ) -> None:
        wanted = tuple(prepared(again="on_restate", generation=n, name=f"hook{n}") for n in range(60))
        for effect in landed(ledger, "one", *wanted):
            ledger.outbox.render(effect, HELLO, "host")
        reports = processes(tmp_path, 3, "take_effects", url)
        taken = [id_ for each in reports for id_ in each]
        assert sorted(taken) == sorted(set(taken))
        assert len(taken) == 60

    def test_two_connections_that_release_one_occasion_let_one_of_them_send(
        self, ledgers: Callable[[], Ledger]
    ) -> None:
        first, second = ledgers(), ledgers()
        publishing(first, "one", prepared())
        publishing(second, "two", prepared())
        second.publish("two", Facts(), generations={"a": 2})
        first.publish("one", Facts(), generations={"a": 1})
        assert (states(first, "one"), states(first, "two")) == ([S.CANCELLED], [S.RELEASED])
