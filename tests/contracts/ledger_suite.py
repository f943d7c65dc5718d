"""What every ledger promises. A test module gives the fixture `url` (of a fresh database); the rest is the same."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.processes.command import ROOT, command
from tests.processes.ledger_processes import CALLS, FACTS, MINUTE
from tests.sample import sample

from twice.core.audit import AuditResult
from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import (
    OVERWROTE,
    AcceptedSlice,
    AttemptState,
    Busy,
    Claim,
    ClaimRequest,
    Facts,
    InputRecord,
    KnownVersions,
    Overview,
    Pinned,
    SliceRecord,
)
from twice.core.results.proof import Difference, Proof, ProofRecord, RowPair, Trial, TrialResult
from twice.core.table.mark import version_of
from twice.core.table.token import Intention
from twice.core.write import Changes
from twice.errors import EnvironmentProblem, LeaseLost, RunError
from twice.ledgers.ledger import Ledger

S = AttemptState
NOON = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)
CLOSINGS = (S.FAILED, S.REJECTED, S.SUPERSEDED, S.UNCHANGED, S.ABANDONED)
CODE_A, CODE_B = Intention("code a", "inputs a"), Intention("code b", None)


class HandClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def tick(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def claim(ledger: Ledger, attempt: str, *labels: str, task: str = "revenue", lease: timedelta = MINUTE) -> Claim:
    found = ledger.claim(ClaimRequest(task, labels or ("a",), attempt, "run", f"host of {attempt}"), lease)
    assert isinstance(found, Claim), found
    return found


def refused(ledger: Ledger, attempt: str, *labels: str, task: str = "revenue") -> Busy:
    found = ledger.claim(ClaimRequest(task, labels or ("a",), attempt, "run", "late host"), MINUTE)
    assert isinstance(found, Busy), found
    return found


def processes(tmp_path: Path, count: int, role: str, url: str, *arguments: str) -> list[Any]:
    """Start them, let all of them begin at once, and read what each prints."""
    start = tmp_path / "start"
    racer = command("ledger_processes", role, url, start, *arguments)
    running = [
        subprocess.Popen(racer, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("start.*"))) < count and time.monotonic() < deadline:
        time.sleep(0.005)
    start.touch()
    reports = []
    for process in running:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    return reports


class LedgerSuite:
    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def ledgers(self, url: str, clock: HandClock) -> Iterator[Callable[[], Ledger]]:
        """Further connections to the same ledger, as other processes have them."""
        opened: list[Ledger] = []

        def another() -> Ledger:
            opened.append(Ledger.open(url, clock))
            return opened[-1]

        yield another
        for ledger in opened:
            ledger.close()

    @pytest.fixture
    def ledger(self, ledgers: Callable[[], Ledger]) -> Ledger:
        return ledgers()


class OpeningSuite:
    """A test module gives the fixture `fresh`: the URL of a database without a ledger, `{step}` in it for one more."""

    def test_processes_that_open_a_fresh_ledger_at_once_share_one(self, fresh: str, tmp_path: Path) -> None:
        reports = processes(tmp_path, 4, "open_at_once", fresh.replace("{step}", "0"))
        assert sorted(found["fence"] for found in reports) == [1, 2, 3, 4]

    @pytest.mark.kill
    @pytest.mark.parametrize("every", sample([23, 1], of=[23]))
    def test_a_ledger_killed_at_any_statement_of_its_making_opens_whole(self, fresh: str, every: int) -> None:
        # Six tables, five indices and the version at least.
        assert crashes_while_opening(fresh, "nothing", every) * every > 12

    @pytest.mark.kill
    @pytest.mark.parametrize("every", sample([23, 1], of=[23]))
    @pytest.mark.parametrize("version", ["0001"])
    def test_a_ledger_of_an_older_twice_killed_at_any_statement_of_its_upgrade_keeps_everything(
        self, fresh: str, version: str, every: int
    ) -> None:
        assert crashes_while_opening(fresh, version, every) * every > 12


def crashes_while_opening(url: str, version: str, every: int) -> int:
    opener = command("ledger_processes", "crash_while_opening", url, version, str(every))
    done = subprocess.run(opener, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["crashes"])


class ClaimSuite(LedgerSuite):
    def test_a_claim_opens_an_attempt_with_its_slices(self, ledger: Ledger) -> None:
        held = ledger.claim(ClaimRequest("revenue", ["b", "a"], "one", "restate", "host:1"), MINUTE)
        assert held == Claim("one", "revenue", ("b", "a"), held.fence)  # type: ignore[union-attr]
        record = ledger.attempt("one")
        assert record is not None
        assert (record.task, record.kind, record.state, record.holder) == ("revenue", "restate", S.CLAIMED, "host:1")
        assert (record.started, record.finished, record.lease_until) == (NOON, None, NOON + MINUTE)
        assert record.slices == (SliceRecord("a"), SliceRecord("b"))
        assert (record.notes, record.seconds, record.error, record.discarded) == ((), {}, None, False)

    def test_a_held_slice_is_busy_and_says_who_holds_it_until_when(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one")
        clock.tick(59.9)
        assert refused(ledger, "two") == Busy("a", "one", "host of one", NOON + MINUTE)

    def test_all_slices_are_claimed_or_none(self, ledger: Ledger) -> None:
        claim(ledger, "one", "b")
        assert refused(ledger, "two", "a", "b", "c").label == "b"
        assert ledger.attempt("two") is None
        assert ledger.run("revenue", "a") is None
        claim(ledger, "three", "a", "c")

    def test_other_slices_and_other_tasks_are_free(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        claim(ledger, "two", "b")
        claim(ledger, "three", "a", task="stock")

    def test_an_expired_lease_is_taken_over_and_the_old_attempt_stays_open(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        old = claim(ledger, "one")
        clock.tick(60)
        new = claim(ledger, "two")
        assert new.fence > old.fence
        assert [(a.id, a.lease_until) for a in ledger.open_attempts()] == [("one", None), ("two", clock.now() + MINUTE)]

    def test_renewing_extends_the_lease(self, ledger: Ledger, clock: HandClock) -> None:
        held = claim(ledger, "one", "a", "b")
        clock.tick(50)
        assert ledger.renew(held, MINUTE)
        clock.tick(50)
        assert refused(ledger, "two").until == NOON + timedelta(seconds=110)

    def test_an_expired_lease_that_nobody_took_can_be_renewed(self, ledger: Ledger, clock: HandClock) -> None:
        held = claim(ledger, "one")
        clock.tick(600)
        assert ledger.renew(held, MINUTE)
        refused(ledger, "two")

    def test_a_lease_with_one_slice_taken_over_cannot_be_renewed(self, ledger: Ledger, clock: HandClock) -> None:
        held = claim(ledger, "one", "a", "b")
        clock.tick(61)
        claim(ledger, "two", "b")
        assert not ledger.renew(held, MINUTE)
        old = ledger.attempt("one")
        assert old is not None
        assert old.lease_until is None
        claim(ledger, "three", "a")  # the failed renewal has not extended the other slice

    @pytest.mark.parametrize("ending", CLOSINGS)
    def test_a_closed_attempt_holds_nothing_and_cannot_renew(self, ledger: Ledger, ending: AttemptState) -> None:
        held = claim(ledger, "one", "a", "b")
        assert ledger.close_attempt("one", ending)
        assert not ledger.renew(held, MINUTE)
        claim(ledger, "two", "a", "b")

    def test_closing_the_old_attempt_leaves_the_new_one_its_lease(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one", "a", "b")
        clock.tick(61)
        claim(ledger, "two", "b")
        ledger.close_attempt("one", S.ABANDONED)
        assert refused(ledger, "three", "b").attempt == "two"
        claim(ledger, "four", "a")

    def test_fences_only_grow_over_all_tasks_and_reopenings(self, ledgers: Callable[[], Ledger]) -> None:
        fences = []
        for number in range(6):
            ledger = ledgers()
            fences.append(claim(ledger, str(number), task=f"task{number % 2}").fence)
            ledger.close_attempt(str(number), S.FAILED)
        assert fences == sorted(set(fences))

    @pytest.mark.parametrize(
        ("task", "labels", "attempt"),
        [("", ["a"], "one"), ("t", [], "one"), ("t", ["a", ""], "one"), ("t", ["a"], ""), ("t", ["a", "a"], "one")],
    )
    def test_empty_and_repeated_names_are_refused(
        self, ledger: Ledger, task: str, labels: list[str], attempt: str
    ) -> None:
        with pytest.raises(ValueError, match="claim"):
            ledger.claim(ClaimRequest(task, labels, attempt, "run", "h"), MINUTE)
        assert ledger.runs() == ()

    def test_an_attempt_claims_once(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        ledger.close_attempt("one", S.FAILED)
        with pytest.raises(ValueError, match="claimed before"):
            ledger.claim(ClaimRequest("revenue", ["a"], "one", "run", "h"), MINUTE)
        claim(ledger, "two", "a")

    def test_a_claim_whose_reply_was_lost_is_found_again_by_its_attempt(self, ledger: Ledger, clock: HandClock) -> None:
        first = claim(ledger, "one", "b", "a")
        clock.tick(5)
        assert claim(ledger, "one", "b", "a") == first
        assert [(a.id, a.lease_until) for a in ledger.open_attempts()] == [("one", clock.now() + MINUTE)]
        for other in (("a",), ("b", "a", "c")):
            with pytest.raises(ValueError, match="claimed before"):
                ledger.claim(ClaimRequest("revenue", other, "one", "run", "host of one"), MINUTE)

    def test_a_lost_claim_that_was_taken_over_is_busy(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one")
        clock.tick(60)
        claim(ledger, "two")
        found = ledger.claim(ClaimRequest("revenue", ["a"], "one", "run", "host of one"), MINUTE)
        assert isinstance(found, Busy)
        assert found.attempt == "two"

    @pytest.mark.parametrize("label", ["o'clock", 'say "hi"', "%_\\", "ünïcode ☃", "a;DROP TABLE twice_runs", " a "])
    def test_any_label_is_kept_as_it_is(self, ledger: Ledger, label: str) -> None:
        claim(ledger, "one", label)
        ledger.publish("one", Facts(), generations={label: 1})
        run = ledger.run("revenue", label)
        assert run is not None
        assert (run.label, run.generation) == (label, 1)

    def test_ten_thousand_slices_are_claimed_and_published_together(self, ledger: Ledger) -> None:
        labels = [f"{number:05d}" for number in range(10_000)]
        held = claim(ledger, "one", *labels)
        ledger.fix(held, dict.fromkeys(labels, 0))
        ledger.publish("one", Facts(), generations=dict.fromkeys(labels, 1))
        assert {run.generation for run in ledger.runs()} == {1}
        assert len(ledger.runs()) == len(labels)

    def test_processes_never_hold_the_same_slice(self, url: str, tmp_path: Path, ledger: Ledger) -> None:
        reports = processes(tmp_path, 4, "race", url, "40")
        won = [claimed for process in reports for claimed in process]
        labels = [label for _, *labels in won for label in labels]
        assert len(labels) == len(set(labels))
        assert len({fence for fence, *_ in won}) == len(won)
        # Pairs of neighbours on a ring of 40: no pair could be added.
        free = {f"{n:04d}" for n in range(40)} - set(labels)
        assert not any(f"{(int(label) + 1) % 40:04d}" in free for label in free)
        assert len(ledger.open_attempts("race")) == len(won)

    def test_processes_that_take_over_get_growing_fences(self, url: str, tmp_path: Path, ledger: Ledger) -> None:
        reports = processes(tmp_path, 4, "take_over", url, "25")
        assert all(fences == sorted(fences) for fences in reports)
        assert len({fence for fences in reports for fence in fences}) == sum(len(fences) for fences in reports)
        newest = max(fence for fences in reports for fence in fences)
        assert [a.fence for a in ledger.open_attempts("over") if a.lease_until is not None] == [newest]

    def test_processes_take_turns_at_a_slice_and_never_overlap(self, url: str, tmp_path: Path, ledger: Ledger) -> None:
        reports = processes(tmp_path, 3, "claim_and_release", url, "8")
        spans = sorted(span for process in reports for span in process)
        assert len(spans) == 24
        assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(spans))
        run = ledger.run("turn", "all")
        assert run is not None
        assert run.generation == ledger.attempts("turn", limit=1)[0].fence

    def test_one_of_many_settlers_closes_an_attempt(self, url: str, tmp_path: Path, ledger: Ledger) -> None:
        names = [f"dead-{number}" for number in range(20)]
        for name in names:
            claim(ledger, name, name)
        reports = processes(tmp_path, 3, "settle_at_once", url, ",".join(names))
        assert sorted(name for closed in reports for name in closed) == sorted(names)


class TransitionSuite(LedgerSuite):
    def test_generations_are_fixed_once(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a", "b")
        ledger.fix(held, {"a": 3, "b": 0})
        ledger.fix(held, {"a": 3})
        with pytest.raises(RunError, match=r"revenue\[b\].*fixed generation 0 .*may not change it to 4"):
            ledger.fix(held, {"a": 3, "b": 4})
        with pytest.raises(RunError, match=r"fixed generation 0 .*may not change it to 2026-06-09"):
            ledger.fix(held, {"b": version_of(date(2026, 6, 9))})
        record = ledger.attempt("one")
        assert record is not None
        assert [s.expected for s in record.slices] == [3, 0]

    def test_a_generation_is_fixed_only_for_the_attempts_own_slices(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a")
        claim(ledger, "two", "b")
        with pytest.raises(ValueError, match="attempt one has no slice b"):
            ledger.fix(held, {"a": 1, "b": 1})
        record = ledger.attempt("one")
        assert record is not None
        assert record.slices == (SliceRecord("a"),)

    def test_a_closed_attempt_fixes_nothing(self, ledger: Ledger) -> None:
        held = claim(ledger, "one")
        ledger.close_attempt("one", S.ABANDONED)
        with pytest.raises(LeaseLost, match="recorded as abandoned"):
            ledger.fix(held, {"a": 0})

    def test_an_attempt_advances_to_its_publish(self, ledger: Ledger) -> None:
        held = claim(ledger, "one")
        for before, after in ((S.CLAIMED, S.STAGED), (S.STAGED, S.AUDITED), (S.AUDITED, S.PUBLISHING)):
            ledger.advance(held, before, after)
            record = ledger.attempt("one")
            assert record is not None
            assert record.state is after

    def test_advancing_from_a_state_it_is_not_in_loses(self, ledger: Ledger) -> None:
        held = claim(ledger, "one")
        ledger.advance(held, S.CLAIMED, S.STAGED)
        with pytest.raises(LeaseLost):
            ledger.advance(held, S.CLAIMED, S.STAGED, Facts(why="again"))
        record = ledger.attempt("one")
        assert record is not None
        assert (record.state, record.why) == (S.STAGED, None)

    @pytest.mark.parametrize("ending", CLOSINGS)
    def test_an_attempt_that_was_declared_dead_cannot_advance_and_is_refused(
        self, ledger: Ledger, ending: AttemptState
    ) -> None:
        held = claim(ledger, "one")
        ledger.close_attempt("one", ending)
        with pytest.raises(LeaseLost) as caught:
            ledger.advance(held, S.CLAIMED, S.STAGED)
        assert str(caught.value) == (
            f"revenue[a]: attempt one is recorded as {ending.value}: it stopped reporting and another process "
            "settled it. This attempt has published nothing. Run again: it will look first."
        )

    @pytest.mark.parametrize(
        ("before", "after"),
        [(S.STAGED, S.CLAIMED), (S.PUBLISHING, S.PUBLISHED), (S.CLAIMED, S.FAILED), (S.FAILED, S.CLAIMED)],
    )
    def test_advancing_never_goes_back_and_never_closes(
        self, ledger: Ledger, before: AttemptState, after: AttemptState
    ) -> None:
        held = claim(ledger, "one")
        with pytest.raises(ValueError, match="does not advance"):
            ledger.advance(held, before, after)

    @pytest.mark.parametrize("ending", CLOSINGS)
    def test_an_attempt_is_closed_once(self, ledger: Ledger, clock: HandClock, ending: AttemptState) -> None:
        claim(ledger, "one")
        clock.tick(5)
        assert ledger.close_attempt("one", ending, Facts(error={"code": "x"}))
        clock.tick(5)
        assert not ledger.close_attempt("one", S.FAILED, Facts(error={"code": "later"}))
        record = ledger.attempt("one")
        assert record is not None
        assert (record.state, record.finished, record.error) == (ending, NOON + timedelta(seconds=5), {"code": "x"})

    @pytest.mark.parametrize("state", [S.CLAIMED, S.PUBLISHING, S.PUBLISHED])
    def test_only_an_ending_without_a_publish_closes(self, ledger: Ledger, state: AttemptState) -> None:
        claim(ledger, "one")
        with pytest.raises(ValueError, match="not closed as"):
            ledger.close_attempt("one", state)

    def test_an_attempt_that_never_looked_is_given_up_and_cannot_look_any_more(self, ledger: Ledger) -> None:
        held = claim(ledger, "one")
        assert ledger.abandon_unlooked("one")
        assert not ledger.abandon_unlooked("one")
        record = ledger.attempt("one")
        assert record is not None
        assert (record.state, record.discarded, record.lease_until) == (S.ABANDONED, True, None)
        with pytest.raises(LeaseLost):
            ledger.fix(held, {"a": 0})
        claim(ledger, "two")

    def test_an_attempt_that_has_looked_is_not_given_up_as_one_that_had_not(self, ledger: Ledger) -> None:
        ledger.fix(claim(ledger, "one"), {"a": 0})
        assert not ledger.abandon_unlooked("one")
        assert not ledger.abandon_unlooked("nobody")
        record = ledger.attempt("one")
        assert record is not None
        assert (record.state, record.discarded) == (S.CLAIMED, False)

    def test_of_a_look_and_a_giving_up_at_once_one_wins(self, ledgers: Callable[[], Ledger]) -> None:
        looking, giving_up = ledgers(), ledgers()
        for number in range(20):
            held = claim(looking, f"one {number}", str(number))
            gave_up: list[bool] = []

            def give_up(name: str = held.attempt, reports: list[bool] = gave_up) -> None:
                reports.append(giving_up.abandon_unlooked(name))

            other = threading.Thread(target=give_up)
            other.start()
            try:
                looking.fix(held, {str(number): 0})
                looked = True
            except LeaseLost:
                looked = False
            other.join(60)
            assert gave_up == [not looked]

    def test_closing_an_attempt_the_ledger_does_not_know_returns_false(self, ledger: Ledger) -> None:
        assert not ledger.close_attempt("nobody", S.FAILED)

    def test_a_published_attempt_cannot_be_closed(self, ledger: Ledger) -> None:
        claim(ledger, "one")
        ledger.publish("one", Facts(), generations={"a": 1})
        assert not ledger.close_attempt("one", S.ABANDONED)
        record = ledger.attempt("one")
        assert record is not None
        assert record.state is S.PUBLISHED


class FactsSuite(LedgerSuite):
    def test_facts_come_back_as_they_were_given(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a", "b")
        inputs = (InputRecord("a", "delta", "shop.orders", "id", 7), InputRecord("b", "file", "x.csv", None, None))
        audits = (AuditResult("unique", "error", True, "ok"), AuditResult("rows", "warn", False, "0 rows"))
        facts = Facts(
            slices=(SliceRecord("a", None, CODE_A, 2**40, "f" * 32), SliceRecord("b", None, CODE_B, 0, "")),
            inputs=inputs,
            audits=audits,
            why="never published",
            version=0,
            notes=("näh", "b"),
            seconds={"stage": 0.25},
            error={"code": "x", "what": "it's “wrong”"},
        )
        ledger.advance(held, S.CLAIMED, S.STAGED, facts)
        record = ledger.attempt("one")
        assert record is not None
        assert (
            Facts(
                record.slices,
                record.inputs,
                record.audits,
                record.why,
                record.version,
                record.notes,
                record.seconds,
                record.error,
            )
            == facts
        )

    def test_what_is_not_new_is_not_forgotten(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a", "b")
        ledger.fix(held, {"a": 2, "b": 2})
        ledger.advance(held, S.CLAIMED, S.STAGED, FACTS)
        before = ledger.attempt("one")
        ledger.advance(held, S.STAGED, S.AUDITED, Facts(slices=(SliceRecord("a"), SliceRecord("b", expected=9))))
        after = ledger.attempt("one")
        assert before is not None
        assert after is not None
        assert (after.slices, after.inputs, after.audits) == (before.slices, before.inputs, before.audits)
        assert (after.why, after.version, after.notes, after.seconds) == (
            "never published",
            9,
            ("a note",),
            {"stage": 1.5},
        )

    def test_seconds_and_notes_add_up_while_audits_and_inputs_are_replaced(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a", "b")
        ledger.advance(held, S.CLAIMED, S.STAGED, FACTS)
        news = Facts(
            inputs=(InputRecord("b", "delta", "shop.stock", "id2", 8),),
            audits=(AuditResult("unique", "error", False, "2 rows"), AuditResult("rows", "warn", True, "7 rows")),
            notes=("a note", "another"),
            seconds={"audit": 2.0},
        )
        ledger.advance(held, S.STAGED, S.AUDITED, news)
        ledger.advance(held, S.AUDITED, S.AUDITED, Facts(seconds={"audit": 3.0}))
        record = ledger.attempt("one")
        assert record is not None
        assert record.notes == ("a note", "another")
        assert record.seconds == {"stage": 1.5, "audit": 3.0}
        assert (record.inputs, record.audits) == (news.inputs, news.audits)

    def test_a_new_intention_replaces_the_old_one_whole(self, ledger: Ledger) -> None:
        held = claim(ledger, "one")
        ledger.advance(held, S.CLAIMED, S.STAGED, Facts(slices=(SliceRecord("a", intention=CODE_A),)))
        ledger.advance(held, S.STAGED, S.STAGED, Facts(slices=(SliceRecord("a", intention=CODE_B),)))
        record = ledger.attempt("one")
        assert record is not None
        assert record.slices == (SliceRecord("a", intention=CODE_B),)

    def test_facts_of_a_slice_that_is_not_the_attempts_own_change_nothing(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a")
        with pytest.raises(ValueError, match="has no slice b"):
            ledger.advance(held, S.CLAIMED, S.STAGED, Facts(slices=(SliceRecord("b", rows=1),), why="x"))
        record = ledger.attempt("one")
        assert record is not None
        assert (record.state, record.why) == (S.CLAIMED, None)


class PublishSuite(LedgerSuite):
    def test_a_publish_moves_the_runs_and_lets_the_slices_go(self, ledger: Ledger, clock: HandClock) -> None:
        held = claim(ledger, "one", "a", "b")
        ledger.advance(held, S.CLAIMED, S.STAGED, Facts(slices=(SliceRecord("a", None, CODE_A, 3, "f"),)))
        clock.tick(5)
        ledger.publish("one", Facts(version=7, seconds={"publish": 1.0}), generations={"a": 1, "b": 4})
        first, second = ledger.runs("revenue")
        at = NOON + timedelta(seconds=5)
        assert (first.generation, first.attempt, first.intention, first.rows) == (1, "one", CODE_A, 3)
        assert (first.fingerprint, first.version, first.published) == ("f", 7, at)
        assert (first.last_attempt, first.last_state) == ("one", S.PUBLISHED)
        assert (second.generation, second.intention, second.rows, second.version) == (4, None, None, 7)
        record = ledger.attempt("one")
        assert record is not None
        assert (record.state, record.finished, record.lease_until) == (S.PUBLISHED, at, None)
        claim(ledger, "two", "a", "b")

    def test_a_second_publish_changes_nothing(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one", "a", "b")
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        before = (ledger.runs(), ledger.attempts("revenue"))
        clock.tick(5)
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        ledger.publish("one", Facts(version=99, why="other"), generations={"a": 2})
        assert (ledger.runs(), ledger.attempts("revenue")) == before

    @pytest.mark.parametrize("hasty", CLOSINGS)
    def test_the_target_is_believed_over_a_hasty_settler(self, ledger: Ledger, hasty: AttemptState) -> None:
        claim(ledger, "one")
        ledger.close_attempt("one", hasty)
        ledger.publish("one", Facts(version=2), generations={"a": 1})
        record, run = ledger.attempt("one"), ledger.run("revenue", "a")
        assert record is not None
        assert run is not None
        assert (record.state, run.generation, run.attempt) == (S.PUBLISHED, 1, "one")

    def test_a_late_report_of_an_older_generation_lowers_nothing(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one")
        clock.tick(61)
        claim(ledger, "two")
        ledger.publish("two", Facts(version=9), generations={"a": 2})
        ledger.publish("one", Facts(version=8), generations={"a": 1})
        run, old = ledger.run("revenue", "a"), ledger.attempt("one")
        assert run is not None
        assert old is not None
        assert (run.generation, run.attempt, run.version, old.state) == (2, "two", 9, S.PUBLISHED)

    def test_a_reset_is_the_one_publish_that_goes_back(self, ledger: Ledger) -> None:
        claim(ledger, "one")
        ledger.publish("one", Facts(version=8), generations={"a": 9})
        ledger.claim(ClaimRequest("revenue", ["a"], "back", "reset", "h"), MINUTE)
        ledger.publish("back", Facts(version=9), generations={"a": 2})
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.generation, run.attempt, run.version) == (2, "back", 9)
        claim(ledger, "two")
        ledger.publish("two", Facts(version=10), generations={"a": 5})
        ledger.publish("back", Facts(version=9), generations={"a": 2})
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.generation, run.attempt) == (5, "two")

    def test_a_late_publish_keeps_the_lease_of_whoever_took_over(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one")
        clock.tick(61)
        claim(ledger, "two")
        ledger.publish("one", Facts(), generations={"a": 1})
        assert refused(ledger, "three").attempt == "two"

    def test_publishing_an_attempt_the_ledger_does_not_know_says_that_the_table_is_right(self, ledger: Ledger) -> None:
        with pytest.raises(EnvironmentProblem, match=r"attempt lost is not in this ledger.*The table holds"):
            ledger.publish("lost", Facts(), generations={"a": 1})

    def test_publishing_a_foreign_slice_changes_nothing(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        claim(ledger, "two", "b")
        with pytest.raises(ValueError, match="attempt one has no slice b"):
            ledger.publish("one", Facts(), generations={"a": 1, "b": 1})
        assert [run.generation for run in ledger.runs()] == [0, 0]

    def test_a_new_generation_forgets_what_was_known_of_the_old_rows(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b")
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        claim(ledger, "two", "a")
        ledger.publish("two", Facts(version=11), generations={"a": 2})
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.generation, run.attempt, run.intention, run.rows, run.fingerprint) == (2, "two", None, None, None)


class AdoptSuite(LedgerSuite):
    def test_an_unknown_publish_is_adopted(self, ledger: Ledger) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 3, attempt="lost", intention=CODE_A, version=12)])
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.generation, run.attempt, run.intention, run.version) == (3, "lost", CODE_A, 12)
        assert (run.rows, run.fingerprint, run.published, run.last_attempt, run.last_state) == (None,) * 5

    def test_what_an_attempt_measured_comes_with_the_publish_that_was_forgotten(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b")
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        ledger.forget("revenue", "a")
        measured = next(slice_ for slice_ in ledger.attempts("revenue")[0].slices if slice_.label == "a")
        ledger.record_found(
            "revenue",
            [
                FoundPublish(
                    "a",
                    1,
                    attempt="one",
                    intention=CODE_A,
                    version=12,
                    rows=measured.rows,
                    fingerprint=measured.fingerprint,
                )
            ],
        )
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.generation, run.attempt, run.rows, run.fingerprint, run.version) == (1, "one", 3, "f", 12)

    def test_adopting_never_lowers_a_run(self, ledger: Ledger) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 3, attempt="x", intention=CODE_A, version=12)])
        before = ledger.runs()
        ledger.record_found("revenue", [FoundPublish("a", 2, attempt="y", intention=CODE_B, version=10)])
        ledger.record_found("revenue", [FoundPublish("a", 3, attempt="other", intention=CODE_B, version=13)])
        ledger.record_found("revenue", [FoundPublish("a", 3)])
        assert ledger.runs() == before

    def test_adopting_a_higher_generation_forgets_the_rows_of_the_old_one(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b")
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        ledger.record_found("revenue", [FoundPublish("a", 2)])
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.generation, run.attempt, run.intention, run.rows, run.version) == (2, None, None, None, None)
        assert (run.published, run.last_attempt, run.last_state) == (None, "one", S.PUBLISHED)

    def test_the_attempts_own_report_fills_in_what_an_adoption_did_not_know(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b")
        ledger.record_found("revenue", [FoundPublish("a", 1, attempt="one", version=9)])
        ledger.record_found("revenue", [FoundPublish("b", 1)])
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        first, second = ledger.runs()
        assert (first.attempt, first.rows, first.fingerprint, first.published) == ("one", 3, "f", NOON)
        assert (second.attempt, second.rows, second.version) == ("one", 4, 9)

    def test_another_attempts_report_of_the_same_generation_fills_in_nothing(self, ledger: Ledger) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 1, attempt="winner")])
        before = ledger.run("revenue", "a")
        claim(ledger, "one", "a", "b")
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        after = ledger.run("revenue", "a")
        assert before is not None
        assert after == replace(before, last_attempt="one", last_state=S.PUBLISHED)

    def test_forgetting_keeps_the_attempts_and_counts_again_from_what_the_table_holds(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b")
        ledger.publish("one", FACTS, generations={"a": 5, "b": 5})
        claim(ledger, "two", "a")
        ledger.forget("revenue", "a")
        ledger.forget("revenue", "unknown")
        first, second = ledger.runs()
        assert (first.generation, first.attempt, first.intention, first.rows, first.published) == (0, *[None] * 4)
        assert (first.last_attempt, second.generation) == ("two", 5)
        ledger.record_found("revenue", [FoundPublish("a", 2, version=3)])
        ledger.publish("two", Facts(), generations={"a": 3})
        assert [run.generation for run in ledger.runs()] == [3, 5]
        assert len(ledger.attempts("revenue", "a")) == 2

    def test_an_adopted_slice_is_known_to_be_right_from_what_was_found_the_same(self, ledger: Ledger) -> None:
        ledger.record_found(
            "revenue", [FoundPublish(label, 3, attempt="lost", intention=CODE_A, version=12) for label in "ab"]
        )
        leaf, pin = InputRecord("a", "delta", "file:/orders", "x", 5), InputRecord("a", "table", "shop.orders", "id", 5)
        assert (ledger.inputs("revenue"), ledger.pins("revenue", "shop.orders")) == ({}, {})
        for attempt, intention in (("other", Intention("code a", "inputs b")), ("same", CODE_A)):
            held = claim(ledger, attempt)
            shown = Facts(slices=(SliceRecord("a", intention=intention),), inputs=(leaf, pin))
            ledger.close_attempt(attempt, S.UNCHANGED, shown)
            if attempt == "other":
                assert ledger.inputs("revenue") == {}, "it was found of other inputs"
        assert ledger.inputs("revenue") == ledger.inputs("revenue", ["a", "b"]) == {"a": (leaf, pin)}
        assert ledger.inputs("revenue", ["b"]) == {}
        assert ledger.pins("revenue", "shop.orders") == {"a": Pinned(5, held.fence, "id")}

    def test_slices_gave_way_that_name_no_inputs_unless_it_is_on_record_that_no_row_did(self, ledger: Ledger) -> None:
        ways = {"a": (CODE_B, Changes(elsewhere=1)), "b": (CODE_B, Changes()), "c": (CODE_A, Changes(elsewhere=1))}
        for label, (intention, changes) in {**ways, "d": (CODE_B, None)}.items():
            held = claim(ledger, f"of {label}", label)
            ledger.fix(held, {label: 0})
            facts = Facts(slices=(SliceRecord(label, intention=intention),), changes=changes)
            ledger.publish(f"of {label}", facts, generations={label: 1})
        ledger.record_found("revenue", [FoundPublish("e", 1, attempt="lost", intention=CODE_B), FoundPublish("f", 1)])
        assert ledger.displaced("revenue") == {"a", "d", "e"}
        claim(ledger, "later", "a")
        ledger.publish("later", Facts(slices=(SliceRecord("a", intention=CODE_A),)), generations={"a": 2})
        assert ledger.displaced("revenue") == {"d", "e"}

    def test_versions_are_all_known_back_to_the_first_publish_that_is_not_on_record(self, ledger: Ledger) -> None:
        def published(attempt: str, generation: int) -> None:
            held = claim(ledger, attempt)
            ledger.fix(held, {"a": generation - 1})
            ledger.publish(attempt, Facts(version=10 * generation), generations={"a": generation})

        def versions() -> KnownVersions:
            return ledger.published_versions("revenue", ["a", "b"])

        assert versions() == KnownVersions()
        published("one", 1)
        published("two", 2)
        assert versions() == KnownVersions(frozenset({10, 20}), 0)
        ledger.record_found("revenue", [FoundPublish("a", 4, attempt="elsewhere", version=40)])
        assert versions() == KnownVersions(frozenset({10, 20, 40}), 40), "another ledger knows what was at 30"
        published("five", 5)
        assert versions() == KnownVersions(frozenset({10, 20, 50}), 50)
        ledger.record_found("revenue", [FoundPublish("b", 1)])
        assert versions() == KnownVersions(frozenset({10, 20, 50}), None)

    def test_a_ledger_that_lost_a_publish_is_brought_forward_and_goes_on(self, ledger: Ledger) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 5)])
        claim(ledger, "one")
        ledger.publish("one", Facts(), generations={"a": 6})
        run = ledger.run("revenue", "a")
        assert run is not None
        assert run.generation == 6


class AcceptanceSuite(LedgerSuite):
    """A person's decision that a slice is right as it is."""

    def accepted(self, ledger: Ledger, attempt: str = "word", generation: int = 1, version: int = 5) -> None:
        what = [AcceptedSlice("a", generation, {"shop.orders": version, "shop.stock": 2})]
        ledger.record_acceptance("revenue", attempt, "ana", "checked", what)

    def test_it_holds_for_the_generation_that_was_looked_at(self, ledger: Ledger) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 1, "another ledger's")])
        assert ledger.accepted("revenue", "shop.orders") == {}
        for _ in range(2):
            self.accepted(ledger)  # the reply to the first was lost
        assert {label: pin.version for label, pin in ledger.accepted("revenue", "shop.orders").items()} == {"a": 5}
        assert ledger.accepted("revenue", "shop.stock")["a"].version == 2
        assert ledger.accepted("revenue", "shop.other") == ledger.accepted("stock", "shop.orders") == {}
        self.accepted(ledger, "later word", version=7)
        assert ledger.accepted("revenue", "shop.orders")["a"].version == 7
        ledger.record_found("revenue", [FoundPublish("a", 2, "another ledger's")])
        assert ledger.accepted("revenue", "shop.orders") == {}

    def test_it_does_not_hold_for_a_later_publish_that_comes_to_the_same_generation(self, ledger: Ledger) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 1, "another ledger's")])
        self.accepted(ledger)
        ledger.forget("revenue", "a")
        held = claim(ledger, "one")
        ledger.fix(held, {"a": 0})
        ledger.publish("one", Facts(), generations={"a": 1})
        assert ledger.accepted("revenue", "shop.orders") == {}
        self.accepted(ledger, "word on it")
        assert ledger.accepted("revenue", "shop.orders")["a"].version == 5

    def test_it_is_no_attempt_at_the_slice_nor_a_reading(self, ledger: Ledger) -> None:
        claim(ledger, "one")
        ledger.publish("one", Facts(), generations={"a": 1})
        claim(ledger, "two")
        ledger.close_attempt("two", S.FAILED)
        self.accepted(ledger)
        run = ledger.run("revenue", "a")
        assert run is not None and (run.last_attempt, run.failed) == ("two", True)
        assert ledger.pins("revenue", "shop.orders") == {}
        assert ledger.attempts("revenue")[0].kind == "accept"
        assert not ledger.open_attempts()

    def test_it_is_kept_when_the_rest_is_pruned_and_displaces_nothing(self, ledger: Ledger, clock: HandClock) -> None:
        ledger.record_found("revenue", [FoundPublish("a", 1, "another ledger's", CODE_A)])
        held = claim(ledger, "finds it right")
        leaf = InputRecord("a", "file", "x.csv", "1", None)
        found = Facts(slices=(SliceRecord("a", intention=CODE_A),), inputs=(leaf,))
        ledger.close_attempt(held.attempt, S.UNCHANGED, found)
        self.accepted(ledger)
        claim(ledger, "last")
        ledger.close_attempt("last", S.UNCHANGED)
        clock.tick(1000)
        ledger.prune(ledger.now())
        assert ledger.accepted("revenue", "shop.orders")["a"].version == 5
        assert ledger.inputs("revenue") == {"a": (leaf,)}

    def test_a_publish_over_rows_of_others_says_so(self, ledger: Ledger) -> None:
        held = claim(ledger, "one", "a", "b")
        over = InputRecord("b", OVERWROTE, "shop.revenue", "3", None)
        ledger.advance(held, S.CLAIMED, S.STAGED, Facts(inputs=(over,)))
        ledger.publish("one", Facts(), generations={"a": 1, "b": 1})
        assert {each.label: each.overwrote for each in ledger.publishes("revenue")} == {"a": False, "b": True}


class HistorySuite(LedgerSuite):
    def test_why_a_generation_was_published_is_known_after_any_number_of_later_attempts(self, ledger: Ledger) -> None:
        for attempt, aim in (("one", 7), ("two", 9), ("again", 7)):
            held = claim(ledger, attempt)
            ledger.fix(held, {"a": 0}, {"a": aim})
            ledger.publish(attempt, Facts(why=f"of {attempt}"), generations={"a": aim})
        for attempt in ("lost", "other"):
            held = claim(ledger, attempt, "a" if attempt == "lost" else "b")
            ledger.fix(held, {held.labels[0]: 0}, {held.labels[0]: 7})
            ledger.close_attempt(attempt, S.SUPERSEDED, Facts(why=f"of {attempt}"))
        assert ledger.why_published("revenue", "a", 7) == ("of again", "of one")
        assert ledger.why_published("revenue", "a", 8) == ()
        assert ledger.why_published("revenue", "b", 7) == ()

    def test_what_nobody_ever_claimed_is_unknown(self, ledger: Ledger) -> None:
        assert ledger.run("revenue", "a") is None
        assert ledger.attempt("one") is None
        assert (ledger.runs(), ledger.attempts("revenue"), ledger.open_attempts(), ledger.undiscarded()) == ((),) * 4

    def test_a_run_shows_its_last_attempt_beside_its_last_publish(self, ledger: Ledger) -> None:
        claim(ledger, "one")
        ledger.publish("one", Facts(), generations={"a": 1})
        claim(ledger, "two")
        ledger.close_attempt("two", S.REJECTED)
        run = ledger.run("revenue", "a")
        assert run is not None
        assert (run.attempt, run.last_attempt, run.last_state) == ("one", "two", S.REJECTED)

    def test_attempts_are_reported_newest_first_and_limited(self, ledger: Ledger) -> None:
        for number in range(5):
            claim(ledger, str(number), "a", "b" if number % 2 else "c")
            ledger.close_attempt(str(number), S.FAILED)
        claim(ledger, "other", "a", task="stock")
        assert [a.id for a in ledger.attempts("revenue")] == ["4", "3", "2", "1", "0"]
        assert [a.id for a in ledger.attempts("revenue", "b")] == ["3", "1"]
        assert [a.id for a in ledger.attempts("revenue", "a", limit=2)] == ["4", "3"]
        assert len(ledger.attempts("revenue", "b")[0].slices) == 2

    def test_open_attempts_are_reported_oldest_first_by_task_and_slice(self, ledger: Ledger) -> None:
        for name, label, task in (("1", "a", "x"), ("2", "b", "x"), ("3", "a", "y"), ("4", "c", "x")):
            claim(ledger, name, label, f"{label}2", task=task)
        ledger.close_attempt("4", S.FAILED)
        assert [a.id for a in ledger.open_attempts()] == ["1", "2", "3"]
        assert [a.id for a in ledger.open_attempts("x")] == ["1", "2"]
        assert [a.id for a in ledger.open_attempts("x", ["a", "a2", "z"])] == ["1"]
        assert ledger.open_attempts("x", []) == ()

    def test_leftovers_are_those_of_attempts_that_ended_without_a_publish(self, ledger: Ledger) -> None:
        for ending in CLOSINGS:
            claim(ledger, ending.value, task="x")
            ledger.close_attempt(ending.value, ending)
        claim(ledger, "published", task="x")
        ledger.publish("published", Facts(), generations={"a": 1})
        claim(ledger, "open", task="x")
        claim(ledger, "other", task="y")
        ledger.close_attempt("other", S.FAILED)
        assert [a.id for a in ledger.undiscarded("x")] == ["failed", "rejected", "superseded", "abandoned"]
        assert [a.id for a in ledger.undiscarded()][-1] == "other"

    def test_discarded_files_are_not_looked_for_again(self, ledger: Ledger) -> None:
        claim(ledger, "one")
        ledger.close_attempt("one", S.FAILED)
        ledger.discarded("one")
        ledger.discarded("one")
        record = ledger.attempt("one")
        assert record is not None
        assert record.discarded
        assert ledger.undiscarded() == ()

    def test_times_come_back_as_utc_whatever_the_clocks_zone(self, ledger: Ledger, clock: HandClock) -> None:
        clock.time = NOON.astimezone(timezone(timedelta(hours=-7)))
        claim(ledger, "one")
        record = ledger.attempt("one")
        assert record is not None
        assert record.started == NOON
        assert record.started.utcoffset() == timedelta(0)
        clock.time = (NOON + MINUTE).astimezone(timezone(timedelta(hours=9)))
        claim(ledger, "two")  # expired, though the local hour looks later

    def test_everything_is_there_after_reopening(self, ledgers: Callable[[], Ledger]) -> None:
        first = ledgers()
        claim(first, "one", "a", "b")
        first.publish("one", FACTS, generations={"a": 1, "b": 1})
        seen = (first.runs(), first.attempts("revenue"))
        first.close()
        second = ledgers()
        assert (second.runs(), second.attempts("revenue")) == seen


class OverviewSuite(LedgerSuite):
    def test_an_overview_shows_the_last_runs_and_counts_the_rest(self, ledger: Ledger) -> None:
        for task in ("b", "a"):
            for label in ("2", "1", "3"):
                claim(ledger, f"{task}{label}", label, task=task)
        ledger.publish("a1", Facts(), generations={"1": 1})
        for attempt, ending in (("a2", S.FAILED), ("b1", S.REJECTED), ("b2", S.ABANDONED), ("b3", S.SUPERSEDED)):
            ledger.close_attempt(attempt, ending)
        found = ledger.overview(None, 2)
        assert [(run.task, run.label) for run in found.runs] == [("b", "2"), ("b", "3")]
        assert (found.total, found.failed) == (6, 3)
        assert found.last_failed is not None
        assert (found.last_failed.task, found.last_failed.label) == ("b", "2")
        assert found.runs == ledger.runs()[-2:]
        of_a = ledger.overview("a", 10)
        assert (len(of_a.runs), of_a.total, of_a.failed) == (3, 3, 1)
        assert ledger.overview("nobody", 10) == Overview((), 0, 0, None)

    def test_a_slice_that_was_put_right_is_no_longer_counted_as_failed(self, ledger: Ledger) -> None:
        claim(ledger, "one")
        ledger.close_attempt("one", S.FAILED)
        claim(ledger, "two")
        ledger.publish("two", Facts(), generations={"a": 1})
        assert ledger.overview(None, 10).failed == 0

    def test_an_export_is_plain_data_and_ends_with_what_was_there_when_it_began(self, ledgers: Any) -> None:
        ledger, other = ledgers(), ledgers()
        claim(ledger, "one")
        rows = ledger.export()
        assert next(rows)["ledger"] == 1
        assert next(rows)["table"] == "attempts"
        claim(other, "two", "b")
        assert [row["id"] for row in rows if row["table"] == "attempts"] == []
        assert [row["id"] for row in ledger.export() if row.get("table") == "attempts"] == ["one", "two"]

    def test_many_slices_are_adopted_together_and_none_is_moved_back(self, ledger: Ledger) -> None:
        found = [FoundPublish(label, 2, "lost", CODE_A, 7) for label in "ab"]
        ledger.record_found("revenue", found)
        ledger.record_found("revenue", [FoundPublish("a", 1), FoundPublish("b", 3)])
        known = [(r.label, r.generation, r.attempt, r.intention, r.version) for r in ledger.runs()]
        assert known == [("a", 2, "lost", CODE_A, 7), ("b", 3, None, None, None)]
        ledger.record_found("revenue", [])


class QuarantineSuite(LedgerSuite):
    def test_a_wait_is_recorded_and_holds_nothing(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b")
        for _ in range(2):  # a second call changes nothing
            ledger.postpone("one", NOON + MINUTE, "tried again after 60 s")
        record = ledger.attempt("one")
        assert record is not None
        assert (record.retry_at, record.notes, record.lease_until) == (NOON + MINUTE, ("tried again after 60 s",), None)
        assert record.state is S.CLAIMED  # what became of it is for the next look to say
        claim(ledger, "two", "a", "b")
        ledger.postpone("unknown", NOON, "nobody")

    def test_a_quarantined_slice_waits_until_a_person_lifts_it(self, ledger: Ledger, clock: HandClock) -> None:
        claim(ledger, "one", "a", "b")
        ledger.close_attempt("one", S.FAILED)
        assert ledger.quarantine("one", "set aside")
        clock.tick(5)
        assert ledger.quarantine("one", "set aside")
        assert ledger.quarantined("revenue") == {"a": NOON, "b": NOON}
        assert ledger.quarantined("stock") == {}
        assert ledger.quarantined("revenue", ["b", "c"]) == {"b": NOON}
        assert [run.quarantined for run in ledger.runs()] == [NOON, NOON]
        assert ledger.attempt("one").notes == ("set aside",)  # type: ignore[union-attr]
        ledger.lift("revenue", ["a", "unknown"])
        assert ledger.quarantined("revenue") == {"b": NOON}

    def test_what_another_attempt_has_taken_up_is_not_quarantined(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        ledger.close_attempt("one", S.FAILED)
        claim(ledger, "two", "a")
        assert not ledger.quarantine("one", "too late")
        assert not ledger.quarantine("unknown", "nobody")
        assert ledger.quarantined("revenue") == {}

    def test_a_publish_lifts_it_and_a_settled_older_one_does_not(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        ledger.publish("one", Facts(), generations={"a": 1})
        claim(ledger, "two", "a")
        ledger.close_attempt("two", S.FAILED)
        ledger.quarantine("two", "set aside")
        ledger.publish("one", Facts(), generations={"a": 1})
        assert "a" in ledger.quarantined("revenue")
        ledger.record_found("revenue", [FoundPublish("a", 2, attempt="zombie", version=9)])
        assert ledger.quarantined("revenue") == {}

    def test_the_overview_counts_it_as_failed(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        ledger.quarantine("one", "its outcome stays unknown")
        found = ledger.overview(None, 10)
        assert (found.failed, found.last_failed) == (1, ledger.run("revenue", "a"))
        assert found.runs[0].failed


class RenameSuite(LedgerSuite):
    def test_history_follows_a_renamed_task(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a", "b", task="old")
        ledger.publish("one", FACTS, generations={"a": 1, "b": 1})
        held = claim(ledger, "two", "a", task="old")
        ledger.rename("old", "new")
        assert (ledger.runs("old"), ledger.attempts("old"), ledger.open_attempts("old")) == ((), (), ())
        assert [(r.label, r.generation) for r in ledger.runs("new")] == [("a", 1), ("b", 1)]
        assert [a.id for a in ledger.attempts("new", "a")] == ["two", "one"]
        assert refused(ledger, "three", "a", task="new").attempt == "two"
        assert ledger.renew(held, MINUTE)
        ledger.advance(held, S.CLAIMED, S.STAGED)

    def test_the_newest_proof_of_a_task_counts_keeps_no_rows_and_follows_its_task(self, ledger: Ledger) -> None:
        differing = Difference(("at",), 1, 1, pairs=(RowPair({"at": "secret row"}, None),))
        changed = Trial("twice", TrialResult.CHANGED, "run again", differing)
        ledger.record_proof(Proof("old", "a", "code 1", NOON, (changed,), 1.0))
        assert ledger.proofs() == {"old": ProofRecord("old", "a", "code 1", NOON, False, ("twice",))}
        ledger.record_proof(Proof("old", "b", "code 2", NOON, (Trial("twice", TrialResult.SAME, ""),), 1.0))
        ledger.rename("old", "new")
        assert ledger.proofs() == {"new": ProofRecord("new", "b", "code 2", NOON, True)}
        assert "secret row" not in str(list(ledger.export()))

    def test_a_second_rename_changes_nothing(self, ledger: Ledger) -> None:
        claim(ledger, "one", task="old")
        ledger.rename("old", "new")
        before = (ledger.runs(), ledger.attempts("new"))
        ledger.rename("old", "new")
        assert (ledger.runs(), ledger.attempts("new")) == before

    def test_where_both_names_know_a_slice_the_further_generation_stays(self, ledger: Ledger) -> None:
        ledger.record_found("old", [FoundPublish("a", 5, attempt="o", intention=CODE_A, version=1)])
        ledger.record_found("new", [FoundPublish("a", 2, attempt="n", intention=CODE_B, version=2)])
        ledger.record_found("old", [FoundPublish("b", 1, attempt="o", intention=CODE_A, version=1)])
        ledger.record_found("new", [FoundPublish("b", 2, attempt="n", intention=CODE_B, version=2)])
        ledger.record_found("old", [FoundPublish("c", 1, attempt="o", intention=CODE_A, version=1)])
        ledger.rename("old", "new")
        assert [(r.label, r.generation, r.attempt) for r in ledger.runs()] == [
            ("a", 5, "o"),
            ("b", 2, "n"),
            ("c", 1, "o"),
        ]

    def test_where_both_names_hold_a_slice_the_longer_lease_stays(self, ledger: Ledger) -> None:
        claim(ledger, "n", "a", task="new")
        claim(ledger, "o", "a", task="old", lease=2 * MINUTE)
        ledger.rename("old", "new")
        assert refused(ledger, "x", "a", task="new").attempt == "o"
        run = ledger.run("new", "a")
        assert run is not None
        assert run.last_attempt == "o"

    @pytest.mark.parametrize("new", ["", "old"])
    def test_a_task_is_renamed_to_another_name(self, ledger: Ledger, new: str) -> None:
        with pytest.raises(ValueError, match="not renamed"):
            ledger.rename("old", new)


class CrashSuite(LedgerSuite):
    @pytest.mark.kill
    @pytest.mark.parametrize("call", sample(sorted(CALLS), of=["claim", "publish"]))
    def test_a_process_killed_at_any_statement_has_changed_all_or_nothing(
        self, url: str, tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BEFORE", str(tmp_path / "before.json"))
        caller = command("ledger_processes", "crash_everywhere", url, call)
        done = subprocess.run(caller, cwd=ROOT, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert seen["after"] != seen["before"]
        # One statement that begins, one that writes, the commit: fewer would mean that nothing was really killed.
        assert len(seen["crashed"]) >= 3
        assert [crashed for crashed in seen["crashed"] if crashed != seen["before"]] == []
