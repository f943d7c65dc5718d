"""What a run says: of what is published, once, and never more than that. No JVM, no network."""

from __future__ import annotations

from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from sqlite3 import connect
from typing import Any

import pytest
from tests.runtime.conftest import DAY, REVENUE, RuntimeSetup, revenue_task
from tests.runtime.starting import start

from twice import EffectRefused, PublishedSlice, audit, call
from twice.core.backfill.plan import BackfillRequest
from twice.core.effect import Effect
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ledger.outbox import Change, EffectRecord, EffectState
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.results.run import Outcome, RunRequest
from twice.core.task import Policy, TableName, Task
from twice.errors import AuditFailed, UsageError
from twice.ledgers.effects.outbox import SqlOutbox
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.worker import Stop, work
from twice.runtime.effects.delivery import drain
from twice.runtime.effects.send import EffectDecision, delivery_of, resolve
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

S = EffectState
NEVER_GONE = "elsewhere:1:1"


class Receiver:
    """Remembers what it received; `fail` decides how a call ends."""

    def __init__(self) -> None:
        self.received: list[tuple[PublishedSlice, str]] = []
        self.errors: list[Exception] = []

    def __call__(self, result: PublishedSlice, key: str) -> str:
        if self.errors:
            raise self.errors.pop(0)
        self.received.append((result, key))
        return f"receipt {len(self.received)}"


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture(autouse=True)
def _sends(runtime: RuntimeSetup) -> None:
    runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder=NEVER_GONE)


def with_effects(runtime: RuntimeSetup, *effects: Effect, **options: Any) -> Task:
    declared = revenue_task(**options)
    return runtime.declare(replace(declared, effects=effects))


def announce(receiver: Any, keyed: bool = False, **options: Any) -> Effect:
    return call(receiver, keyed=keyed, name="announce", **options)


def states(runtime: RuntimeSetup) -> list[EffectState]:
    return [effect.state for effect in reversed(runtime.ledger.outbox.listed((), None, 100))]


def crash(runtime: RuntimeSetup, declared: Task, point: Point | SendPoint, **options: Any) -> None:
    with pytest.raises(Crash), armed(crash_at(point)):
        run_task(runtime.context, declared, (declared.scope.slice_of("2026-06-09"),), RunRequest(**options))  # type: ignore[union-attr]


def later(runtime: RuntimeSetup, hours: int = 1) -> None:
    runtime.clock.ahead += timedelta(hours=hours)


def test_a_published_slice_is_announced_once_with_the_stored_result(runtime: RuntimeSetup, receiver: Receiver) -> None:
    declared = with_effects(runtime, announce(receiver, sample=5))
    ended = runtime.run(declared)
    assert [(end.name, end.state, end.already) for end in ended.effects] == [("announce", S.SENT, False)]
    ((result, key),) = receiver.received
    assert (result.task, result.slice, result.generation, result.rows) == ("revenue", "2026-06-09", 1, 1)
    assert result.fingerprint == ended.slices[0].fingerprint
    assert (result.version, result.project, len(key)) == (1, "p", 64)
    assert [(one.name, one.passed) for one in result.audits] == [("not_null(revenue)", True)]
    assert result.sample == ({"order_date": str(DAY), "revenue": 15},)


def test_a_second_run_says_nothing_more(runtime: RuntimeSetup, receiver: Receiver) -> None:
    declared = with_effects(runtime, announce(receiver))
    runtime.run(declared)
    again = runtime.run(declared)
    assert len(receiver.received) == 1
    assert [(end.state, end.already) for end in again.effects] == [(S.SENT, True)]


@pytest.mark.parametrize(
    ("again", "identical", "changed"), [("never", 1, 1), ("on_restate", 2, 3), ("when_changed", 1, 2)]
)
def test_a_restated_slice_is_announced_according_to_again(
    runtime: RuntimeSetup, receiver: Receiver, again: Any, identical: int, changed: int
) -> None:
    declared = with_effects(runtime, announce(receiver, again=again))
    runtime.run(declared)
    runtime.run(declared, kind="restate")
    assert len(receiver.received) == identical
    runtime.put_orders((1, DAY, 99))
    runtime.run(declared, kind="restate")
    assert len(receiver.received) == changed


def test_a_failed_audit_sends_nothing(runtime: RuntimeSetup, receiver: Receiver) -> None:
    declared = with_effects(runtime, announce(receiver), audits=(audit.rows(at_least=5),))
    with pytest.raises(AuditFailed):
        runtime.run(declared)
    later(runtime)
    recover(runtime.context, None)
    assert receiver.received == []
    assert states(runtime) == []


@pytest.mark.parametrize("point", Point)
def test_a_crash_of_the_run_anywhere_loses_nothing_and_sends_nothing_for_what_is_not_published(
    runtime: RuntimeSetup, receiver: Receiver, point: Point
) -> None:
    declared = with_effects(runtime, announce(receiver))
    crash(runtime, declared, point)
    assert receiver.received == []
    later(runtime)
    landed = point in (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
    recover(runtime.context, None)
    assert len(receiver.received) == landed
    runtime.run(declared)
    assert len(receiver.received) == 1
    assert states(runtime).count(S.SENT) == 1
    assert set(states(runtime)) <= {S.SENT, S.CANCELLED}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("point", SendPoint)
def test_a_crash_while_it_is_sent_leaves_one_message_or_doubt(
    runtime: RuntimeSetup, receiver: Receiver, point: SendPoint, keyed: bool
) -> None:
    declared = with_effects(runtime, announce(receiver, keyed))
    crash(runtime, declared, point)
    later(runtime)
    ended = runtime.run(declared)
    keys = {key for _, key in receiver.received}
    doubtful = point in (SendPoint.SENDING, SendPoint.LEAVING, SendPoint.ANSWERED) and not keyed
    assert [end.state for end in ended.effects] == [S.IN_DOUBT if doubtful else S.SENT]
    assert len(keys) == (point not in (SendPoint.SENDING, SendPoint.LEAVING) or keyed)
    if not keyed:
        assert len(receiver.received) <= 1


def test_every_point_of_sending_is_reached_in_its_order(runtime: RuntimeSetup, receiver: Receiver) -> None:
    reached: list[Any] = []
    with armed(reached.append):
        runtime.run(with_effects(runtime, announce(receiver)))
    assert reached == [*Point, *SendPoint]


def test_every_try_gets_the_text_that_was_made_at_first(runtime: RuntimeSetup) -> None:
    received: list[PublishedSlice] = []

    def fails_once(result: PublishedSlice, key: str) -> None:
        received.append(result)
        if len(received) == 1:
            raise RuntimeError("reply lost")

    declared = with_effects(runtime, announce(fails_once, keyed=True, sample=3))
    runtime.run(declared)
    runtime.put_orders((1, DAY, 99))
    later(runtime)
    drain(delivery_of(runtime.context))
    assert len(received) == 2
    assert received[0] == received[1]


def test_a_definite_refusal_is_tried_again_when_its_time_has_come(runtime: RuntimeSetup, receiver: Receiver) -> None:
    receiver.errors.append(EffectRefused("too many", retry_after=600))
    declared = with_effects(runtime, announce(receiver))
    assert runtime.run(declared).effects[0].state is S.PENDING
    runtime.clock.ahead += timedelta(seconds=590)
    runtime.run(declared)
    assert receiver.received == []
    runtime.clock.ahead += timedelta(seconds=20)
    assert runtime.run(declared).effects[0].state is S.SENT


def test_a_refusal_for_good_is_dead_and_shown(runtime: RuntimeSetup, receiver: Receiver) -> None:
    receiver.errors.append(EffectRefused("no such account", for_good=True))
    end = runtime.run(with_effects(runtime, announce(receiver))).effects[0]
    assert (end.state, end.why) == (S.DEAD, "no such account")


def test_doubt_without_a_key_waits_for_a_person_however_often_it_is_run(
    runtime: RuntimeSetup, receiver: Receiver
) -> None:
    receiver.errors.append(RuntimeError("reset"))
    declared = with_effects(runtime, announce(receiver))
    assert runtime.run(declared).effects[0].state is S.IN_DOUBT
    later(runtime, 100)
    runtime.run(declared)
    recover(runtime.context, None)
    assert receiver.received == []
    assert states(runtime) == [S.IN_DOUBT]


def test_a_key_that_the_receiver_may_have_forgotten_is_not_used_again(
    runtime: RuntimeSetup, receiver: Receiver
) -> None:
    receiver.errors.append(RuntimeError("reset"))
    declared = with_effects(runtime, announce(receiver, keyed=True))
    assert runtime.run(declared).effects[0].state is S.PENDING
    later(runtime, 22)
    end = runtime.run(declared).effects[0]
    assert end.state is S.IN_DOUBT
    assert "may have forgotten the key" in (end.why or "")
    assert receiver.received == []


def test_a_text_that_cannot_be_made_does_not_fail_the_run(runtime: RuntimeSetup, receiver: Receiver) -> None:
    declared = with_effects(runtime, announce(receiver, sample=1))
    runtime.context = replace(runtime.context, engine=_NoSample())
    ended = runtime.run(declared)
    assert ended.outcome.value == "published"
    assert (ended.effects[0].state, ended.effects[0].why) == (
        S.DEAD,
        "its text cannot be rendered: ValueError: no rows today",
    )


class _NoSample:
    """The plain engine, of which no sample can be taken."""

    def __getattr__(self, name: str) -> Any:
        from twice.engine.plain import PlainEngine

        return getattr(PlainEngine(), name)

    def sample(self, *_: Any) -> Any:
        raise ValueError("no rows today")


def test_a_silent_run_says_nothing_and_leaves_the_word_to_a_later_publish(
    runtime: RuntimeSetup, receiver: Receiver
) -> None:
    declared = with_effects(runtime, announce(receiver))
    ended = run_task(runtime.context, declared, (declared.scope.slice_of("2026-06-09"),), RunRequest(silent=True))  # type: ignore[union-attr]
    assert receiver.received == []
    assert ended.notes == ("this run was silent: its effects were not prepared",)
    runtime.run(declared)
    assert receiver.received == []
    runtime.run(declared, kind="restate")
    assert len(receiver.received) == 1


def test_with_sending_switched_off_effects_wait(runtime: RuntimeSetup, receiver: Receiver) -> None:
    runtime.context = replace(runtime.context, sends=False)
    declared = with_effects(runtime, announce(receiver))
    assert runtime.run(declared).effects[0].state is S.PENDING
    assert receiver.received == []
    drain(delivery_of(runtime.context))
    assert len(receiver.received) == 1


def test_what_another_ledger_published_is_of_unknown_state_and_never_sent(
    runtime: RuntimeSetup, receiver: Receiver
) -> None:
    declared = with_effects(runtime, announce(receiver))
    runtime.context = replace(runtime.context, sends=False)
    runtime.run(declared)
    lost = runtime.ledger
    fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=fresh, sends=True)
    end = runtime.run(declared).effects[0]
    lost.close()
    assert (end.state, end.already) == (S.UNKNOWN, True)
    runtime.run(declared, kind="restate")
    recover(runtime.context, None)
    assert receiver.received == []


@pytest.mark.parametrize("point", [None, Point.AFTER_COMMIT])
def test_a_table_that_was_copied_with_its_log_is_adopted_under_its_new_name_and_nothing_is_sent_for_it_again(
    runtime: RuntimeSetup, receiver: Receiver, point: Point | None
) -> None:
    copied = TableName("shop.revenue_2")

    def opened(table: TableName) -> Ledger:
        home = RecordOwner("p", "prod", {"revenue": TaskTable("prod", str(table))})
        return Ledger.open(f"sqlite:///{runtime.context.root}/shared.db", runtime.clock, owner=home)

    first, runtime.context = runtime.context.ledger, replace(runtime.context, ledger=opened(REVENUE))
    declared = with_effects(runtime, announce(receiver))
    if point is None:
        runtime.run(declared)
    else:
        crash(runtime, declared, point)  # recorded by a look at its own table, not by one at the copy
    sent = len(receiver.received)
    assert sent == (point is None)
    runtime.target._tables[copied.name] = deepcopy(runtime.target._tables[REVENUE.name])
    runtime.ledger.close()
    runtime.context = replace(runtime.context, ledger=opened(copied))
    renamed = runtime.declare(replace(declared, target=copied))
    end = runtime.run(renamed)
    run = runtime.ledger.run("revenue", "2026-06-09")
    assert run is not None
    assert (end.outcome, run.generation, run.version) == (Outcome.ALREADY, 1, 1)
    runtime.put_orders((1, DAY, 10), (2, DAY, 6))
    assert runtime.run(renamed).outcome is Outcome.PUBLISHED
    assert len(receiver.received) == sent
    runtime.ledger.close()
    first.close()


def forgotten(monkeypatch: pytest.MonkeyPatch, runtime: RuntimeSetup) -> None:
    """As a table whose log was cleaned up: it has its tokens, and nobody knows whose they are."""
    runtime.clock.ahead += timedelta(days=40)
    monkeypatch.setattr(runtime.target, "provenance", lambda *_, **__: None)


@pytest.mark.parametrize("again", ["never", "on_restate", "when_changed"])
@pytest.mark.parametrize("settle", ["recover", "run"])
def test_what_landed_and_was_forgotten_by_the_log_before_anybody_asked_is_unknown_and_not_written_off(
    runtime: RuntimeSetup, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, settle: str, again: Any
) -> None:
    declared = with_effects(runtime, announce(receiver, again=again), policy=Policy(rerun="never"))
    crash(runtime, declared, Point.AFTER_COMMIT)
    forgotten(monkeypatch, runtime)
    notes: tuple[str, ...] = ()
    if settle == "recover":
        assert [end.state for end in recover(runtime.context, None)] == [AttemptState.ABANDONED]
        assert not recover(runtime.context, None)
    else:
        notes = run_task(runtime.context, declared, (declared.scope.slice_of("2026-06-09"),)).notes  # type: ignore[union-attr]
    (attempt,) = [each for each in runtime.ledger.attempts("revenue") if each.state is AttemptState.ABANDONED]
    said = "the table's log has forgotten who published generation 1 of 2026-06-09: "
    assert attempt.notes[0].startswith(said + f"it may have been attempt {attempt.id[:8]}")
    assert [note for note in notes if note.startswith(said)] == list(attempt.notes) * (settle == "run")
    assert (receiver.received, states(runtime)) == ([], [S.CANCELLED, S.UNKNOWN])
    runtime.run(declared)  # asked once more, it stays one effect that a person may decide on
    (effect,) = runtime.ledger.outbox.listed((S.UNKNOWN,), None, 9)
    resolve(delivery_of(runtime.context), effect.id, EffectDecision("resend", "ana", "it never came"))
    recover(runtime.context, None)
    assert [result.slice for result, _ in receiver.received] == ["2026-06-09"]


def test_what_was_given_up_and_landed_and_was_then_forgotten_is_unknown_too(
    runtime: RuntimeSetup, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = with_effects(runtime, announce(receiver))

    def given_up(point: object) -> None:
        if point is Point.PUBLISHING:
            runtime.clock.ahead += timedelta(hours=1)
            assert [end.state for end in recover(runtime.context, None)] == [AttemptState.ABANDONED]
        if point is Point.AFTER_PUBLISH:
            raise Crash

    with armed(given_up), pytest.raises(Crash):
        runtime.run(declared)
    forgotten(monkeypatch, runtime)
    recover(runtime.context, None)
    assert (receiver.received, states(runtime)) == ([], [S.CANCELLED, S.UNKNOWN])


def test_an_attempt_whose_generation_the_ledger_knows_to_be_anothers_leaves_nothing_unknown(
    runtime: RuntimeSetup, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = with_effects(runtime, announce(receiver, again="when_changed"))
    crash(runtime, declared, Point.PUBLISHING)
    runtime.clock.ahead += timedelta(hours=1)
    with monkeypatch.context() as untidy:
        untidy.setattr("twice.runtime.run.publish.remove_passed", lambda *_: None)
        runtime.run(declared)
    forgotten(monkeypatch, runtime)
    assert [end.state for end in recover(runtime.context, None)] == [AttemptState.SUPERSEDED]
    assert (len(receiver.received), states(runtime)) == (1, [S.CANCELLED, S.SENT])


def test_an_older_copy_of_a_table_makes_nothing_unknown_that_this_ledger_saw_published(
    runtime: RuntimeSetup, receiver: Receiver
) -> None:
    declared = with_effects(runtime, announce(receiver))
    for amount in (5, 6):
        runtime.put_orders((1, DAY, 10), (2, DAY, amount))
        run_task(runtime.context, declared, (declared.scope.slice_of("2026-06-09"),), RunRequest(silent=True))  # type: ignore[union-attr]
    held = runtime.target._tables[REVENUE.name]
    held.versions = held.versions[:2]
    assert runtime.run(declared).outcome is Outcome.PUBLISHED
    assert (states(runtime), len(receiver.received)) == ([S.SENT], 1)


@pytest.mark.parametrize("how", ["run", "recover", "rebuild"])
@pytest.mark.parametrize(
    "point", [Point.AFTER_CLAIM, Point.AFTER_LOOK, Point.IN_STAGE, Point.AFTER_STAGE, Point.AFTER_AUDIT]
)
def test_a_ledger_put_back_to_where_an_attempt_had_just_begun_does_not_send_again_what_that_attempt_sent(
    runtime: RuntimeSetup, receiver: Receiver, point: Point, how: str
) -> None:
    declared, root = with_effects(runtime, announce(receiver)), runtime.context.root

    def back_up(passed: Point | SendPoint) -> None:
        if passed is point:
            with closing(connect(root / "ledger.db")) as live, closing(connect(root / "backup.db")) as backup:
                live.backup(backup)

    with armed(back_up):
        runtime.run(declared)
    lost, kept = runtime.ledger, Ledger.open(f"sqlite:///{root}/backup.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=kept)
    later(runtime)
    if how != "run":
        recover(runtime.context, None) if how == "recover" else rebuild_ledger(runtime.context, None)
    assert runtime.run(declared).outcome is Outcome.ALREADY, "its commit names the inputs it was made of"
    runtime.put_orders((1, DAY, 10), (2, DAY, 6))
    assert runtime.run(declared).outcome is Outcome.PUBLISHED
    assert (states(runtime), len(receiver.received)) == ([S.UNKNOWN], 1)
    lost.close()
    kept.close()


def test_after_a_rebuild_of_a_lost_ledger_effects_are_unknown_and_never_sent_by_themselves(
    runtime: RuntimeSetup, receiver: Receiver
) -> None:
    declared = with_effects(runtime, announce(receiver))
    runtime.run(declared)
    rebuild_ledger(runtime.context, None)
    assert states(runtime) == [S.SENT], "a ledger that knows keeps what it knows"
    known = runtime.ledger
    fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=fresh)
    known.close()
    rebuild_ledger(runtime.context, None)
    rebuild_ledger(runtime.context, None)
    recover(runtime.context, None)
    runtime.run(declared, kind="restate")
    assert states(runtime) == [S.UNKNOWN]
    assert len(receiver.received) == 1


def test_a_person_may_have_an_unknown_effect_sent(runtime: RuntimeSetup, receiver: Receiver) -> None:
    test_what_another_ledger_published_is_of_unknown_state_and_never_sent(runtime, receiver)
    resolve(delivery_of(runtime.context), 1, EffectDecision("resend", "ana", "nobody got it"))
    recover(runtime.context, None)
    assert [result.generation for result, _ in receiver.received] == [1]


class TestProbe:
    def doubtful(self, runtime: RuntimeSetup, receiver: Receiver, answer: Any) -> Task:
        receiver.errors.append(RuntimeError("reset"))
        declared = with_effects(runtime, announce(receiver, probe=lambda key: answer))
        runtime.run(declared)
        later(runtime)
        return declared

    def test_that_finds_it_settles_the_doubt(self, runtime: RuntimeSetup, receiver: Receiver) -> None:
        declared = self.doubtful(runtime, receiver, True)
        assert runtime.run(declared).effects[0].state is S.SENT
        assert receiver.received == []

    def test_that_does_not_find_it_has_it_sent(self, runtime: RuntimeSetup, receiver: Receiver) -> None:
        declared = self.doubtful(runtime, receiver, False)
        assert runtime.run(declared).effects[0].state is S.SENT
        assert len(receiver.received) == 1

    def test_that_cannot_decide_leaves_the_doubt(self, runtime: RuntimeSetup, receiver: Receiver) -> None:
        declared = self.doubtful(runtime, receiver, None)
        assert runtime.run(declared).effects[0].state is S.IN_DOUBT

    def test_is_not_believed_to_miss_it_while_the_sender_may_wake_up(
        self, runtime: RuntimeSetup, receiver: Receiver
    ) -> None:
        declared = with_effects(runtime, announce(receiver, probe=lambda key: False))
        crash(runtime, declared, SendPoint.LEAVING)
        later(runtime)
        assert runtime.run(declared).effects[0].state is S.IN_DOUBT


class TestResolve:
    @pytest.fixture
    def doubtful(self, runtime: RuntimeSetup, receiver: Receiver) -> Task:
        receiver.errors.append(RuntimeError("reset"))
        declared = with_effects(runtime, announce(receiver))
        runtime.run(declared)
        return declared

    def test_sent_is_kept_with_who_when_and_why(self, runtime: RuntimeSetup, doubtful: Task) -> None:
        found = resolve(delivery_of(runtime.context), 1, EffectDecision("sent", "ana", "seen in the channel"))
        assert found.state is S.SENT
        last = runtime.ledger.outbox.events(1)[-1]
        assert (last.who, last.why, last.state) == ("ana", "seen in the channel", S.SENT)

    def test_resend_sends_it_again(self, runtime: RuntimeSetup, doubtful: Task, receiver: Receiver) -> None:
        resolve(delivery_of(runtime.context), 1, EffectDecision("resend", "ana", "not in the channel"))
        runtime.run(doubtful)
        assert len(receiver.received) == 1

    def test_abandon_is_for_ever(self, runtime: RuntimeSetup, doubtful: Task, receiver: Receiver) -> None:
        resolve(delivery_of(runtime.context), 1, EffectDecision("abandon", "ana", "too old"))
        runtime.run(doubtful, kind="restate")
        assert receiver.received == []
        with pytest.raises(UsageError, match="the effect is abandoned: there is nothing to resolve"):
            resolve(delivery_of(runtime.context), 1, EffectDecision("resend", "ana", "after all"))

    def test_what_a_dead_attempt_has_prepared_may_be_given_up_once_it_may_have_landed(
        self, runtime: RuntimeSetup, receiver: Receiver
    ) -> None:
        declared = with_effects(runtime, announce(receiver))
        with armed(crash_at(Point.AFTER_COMMIT)), pytest.raises(Crash):
            runtime.run(declared)
        with pytest.raises(UsageError, match="the effect is prepared: there is nothing to resolve"):
            resolve(delivery_of(runtime.context), 1, EffectDecision("abandon", "ana", "its lease is not over"))
        runtime.clock.ahead += timedelta(hours=1)
        with pytest.raises(UsageError, match="the effect is prepared: there is nothing to resolve"):
            resolve(delivery_of(runtime.context), 1, EffectDecision("resend", "ana", "nobody knows if it landed"))
        found = resolve(delivery_of(runtime.context), 1, EffectDecision("abandon", "ana", "its table is gone"))
        assert found.state is S.ABANDONED
        runtime.run(declared)
        assert receiver.received == []

    def test_needs_a_reason_and_an_effect_that_is_there(self, runtime: RuntimeSetup, doubtful: Task) -> None:
        with pytest.raises(UsageError, match="a reason is needed"):
            resolve(delivery_of(runtime.context), 1, EffectDecision("sent", "ana", " "))
        with pytest.raises(UsageError, match="there is no effect 9. See them: twice effects list"):
            resolve(delivery_of(runtime.context), 9, EffectDecision("sent", "ana", "x"))

    def test_a_decision_that_came_second_is_not_recorded(
        self, runtime: RuntimeSetup, doubtful: Task, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        find = SqlOutbox.find

        def find_and_be_too_late(outbox: SqlOutbox, id_: int) -> EffectRecord | None:
            found = find(outbox, id_)
            assert found is not None and outbox.change(found, Change(S.ABANDONED, "too old"), "bo")
            return found

        monkeypatch.setattr(SqlOutbox, "find", find_and_be_too_late)
        with pytest.raises(UsageError) as refused:
            resolve(delivery_of(runtime.context), 1, EffectDecision("sent", "ana", "seen in the channel"))
        assert str(refused.value) == (
            "revenue[2026-06-09] announce: the effect changed just now: somebody else sent it or decided on it. "
            "Your decision was not recorded. See how it is now: twice effects show 1."
        )
        assert states(runtime) == [S.ABANDONED]

    def test_resend_is_refused_while_a_frozen_sender_could_wake_up(
        self, runtime: RuntimeSetup, receiver: Receiver
    ) -> None:
        crash(runtime, with_effects(runtime, announce(receiver)), SendPoint.LEAVING)
        later(runtime)
        delivery = delivery_of(runtime.context)
        with pytest.raises(UsageError, match="may still wake up and send. Nothing was changed. End that process"):
            resolve(delivery, 1, EffectDecision("resend", "ana", "not there"))
        resolve(delivery, 1, EffectDecision("resend", "ana", "the machine was wiped", sender_is_gone=True))
        assert states(runtime) == [S.PENDING]

    def test_resend_is_not_for_an_effect_that_is_being_sent(self, runtime: RuntimeSetup, receiver: Receiver) -> None:
        crash(runtime, with_effects(runtime, announce(receiver)), SendPoint.LEAVING)
        with pytest.raises(UsageError, match="the effect is sending"):
            resolve(delivery_of(runtime.context), 1, EffectDecision("resend", "ana", "hurry"))


def test_a_sender_that_wakes_up_after_it_was_judged_does_not_send(runtime: RuntimeSetup, receiver: Receiver) -> None:
    declared = with_effects(runtime, announce(receiver))

    def sleep_too_long(passed: Point | SendPoint) -> None:
        if passed is SendPoint.SENDING:
            later(runtime)
            delivery = delivery_of(replace(runtime.context, holder="other:2:2"))
            drain(delivery)
            assert states(runtime) == [S.IN_DOUBT]

    with armed(sleep_too_long):
        ended = runtime.run(declared)
    assert receiver.received == []
    assert (ended.effects[0].state, ended.effects[0].why) == (S.PENDING, "it resumed too late to send")


def test_changing_an_effect_does_not_make_the_task_stale() -> None:
    from twice.engine.code.code_hash import code_hash

    declared = revenue_task()
    assert code_hash(declared) == code_hash(replace(declared, effects=(call(print, keyed=True),)))


@pytest.mark.parametrize(("silent", "sent"), [(True, 0), (False, 2)])
def test_a_backfill_is_silent_unless_asked(runtime: RuntimeSetup, receiver: Receiver, silent: bool, sent: int) -> None:
    with_effects(runtime, announce(receiver))
    record, _ = start(
        runtime.context, BackfillRequest("revenue", "2026-06-09", "2026-06-10", batch="off", silent=silent)
    )
    work(runtime.context, record.name, lambda event: None, Stop.never())
    assert len(runtime.revenue) == 2
    assert len(receiver.received) == sent
