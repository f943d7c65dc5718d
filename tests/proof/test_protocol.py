"""Every interleaving of two attempts, all steps, one crash or lost reply anywhere, leases that run out at any moment.

The runtime is the real one; ledger and table are a small model (tests/proof/protocol) that commits as Delta or as
PostgreSQL does. Every promise is checked at every step, and after every history the next run must converge. Each guard
is then taken away: the check must fail, or it would prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.proof.protocol.actor import APP, SLICE, Actor, ModelLedger, ModelTarget
from tests.proof.protocol.promises import Broken
from tests.proof.protocol.search import Search
from tests.proof.protocol.system import GUARDS
from tests.sample import sample

from twice.core.ledger.record import AttemptState, Claim, Facts
from twice.core.ports import Landed, Lost, Staged
from twice.core.table.token import CommitNote
from twice.runtime.run import run_task
from twice.runtime.staleness.decide import Decision
from twice.runtime.table import garbage as collect

DATABASES = ("delta", "postgres")
SAME = (Actor("a"), Actor("b"))
OTHER = (Actor("a"), Actor("b", "v2"))
ONE_FAILS = (Actor("a"), Actor("b", "v2", passes=False))
RESTATED = (Actor("a"), Actor("b", kind="restate"))
RECOVERED = (Actor("a"), Actor("r", kind="recover"), Actor("s", kind="recover"))


def without(*guards: str) -> frozenset[str]:
    assert set(guards) <= GUARDS
    return GUARDS - set(guards)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", sample(DATABASES, of=["delta"]))
def test_two_attempts_with_the_same_intention_publish_it_once_whatever_happens(database: str) -> None:
    found = Search(SAME, database).explore()
    assert found.states > 100_000
    # The search is worth something only if everything that can happen does.
    for ends in [("published", "already published"), ("already published", "published"), ("published", "busy")]:
        assert ends in found.endings
    assert {("dead", "published"), ("dead", "already published"), ("published", "lease-lost")} <= found.endings


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("database", "faults"), [("delta", 1), ("postgres", 0), ("postgres", 1)])
def test_two_attempts_with_other_intentions_land_one_after_the_other_or_say_who_won(database: str, faults: int) -> None:
    found = Search(OTHER, database, faults=faults).explore()
    for ends in [("published", "published"), ("published", "superseded"), ("superseded", "published")]:
        assert ends in found.endings


@pytest.mark.parametrize("database", sample(DATABASES, of=["delta"]))
def test_rows_that_fail_their_audit_are_never_visible(database: str) -> None:
    found = Search(ONE_FAILS, database, faults=0).explore()
    assert ("published", "audit-failed") in found.endings


@pytest.mark.long
def test_a_run_beside_a_restatement() -> None:
    found = Search(RESTATED, "delta", faults=0).explore()
    # The system keeps no fingerprints to compare.
    assert {("published", "changed"), ("published", "superseded")} & found.endings


@pytest.mark.long
@pytest.mark.parametrize("database", DATABASES)
def test_recovery_beside_an_attempt_that_only_seems_dead_takes_nothing_from_it(database: str) -> None:
    found = Search(RECOVERED, database, faults=0).explore()
    assert ("published", "recovered", "recovered") in found.endings


@pytest.mark.long
@pytest.mark.parametrize("database", DATABASES)
def test_without_any_lease_every_promise_still_holds(database: str) -> None:
    """Leases only save work."""
    found = Search(SAME, database, without("lease"), faults=0).explore()
    assert not any("busy" in ends for ends in found.endings)


class TestEachGuardIsNeeded:
    def broken(self, *args: Any, **kwargs: Any) -> str:
        with pytest.raises(Broken) as caught:
            Search(*args, **kwargs).explore()
        return str(caught.value)

    @pytest.mark.parametrize("database", DATABASES)
    def test_the_compare_at_the_commit(self, database: str) -> None:
        assert "generations were published as" in self.broken(SAME, database, without("compare"), faults=0)

    def test_the_token_registered_on_deltas_transaction(self) -> None:
        assert "the rows of ('a', 'b')" in self.broken(SAME, "delta", without("register"), faults=0)

    def test_the_lock_on_postgresqls_token(self) -> None:
        message = self.broken(SAME, "postgres", without("lock"), faults=0)
        assert "the rows of ('a', 'b')" in message or "generations were published as" in message

    @pytest.mark.parametrize("database", DATABASES)
    def test_reading_back_a_commit_whose_reply_was_lost(self, database: str) -> None:
        assert "ended as run" in self.broken((Actor("a"),), database, without("read back"))

    @pytest.mark.parametrize("database", DATABASES)
    def test_the_state_an_attempt_must_be_in_to_go_on(self, database: str) -> None:
        assert "nobody will ever collect" in self.broken(SAME, database, without("state"))

    @pytest.mark.long
    def test_giving_up_only_attempts_that_never_looked(self) -> None:
        assert "nobody will ever collect" in self.broken(SAME, "delta", without("unlooked"))

    @pytest.mark.parametrize("database", DATABASES)
    def test_the_generation_fixed_at_look(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model = {"delta": "DeltaModel", "postgres": "PostgresModel"}[database]
        commit = getattr(__import__("tests.proof.protocol.actor", fromlist=[model]), model).commit

        def late(self: ModelTarget, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
            now = self.published(staged.table, [APP]).generations
            moved = CommitNote(note.attempt, note.kind, {APP: now[APP] + 1}, note.intentions)
            return commit(self, staged, now, moved)  # type: ignore[no-any-return]

        monkeypatch.setattr(f"tests.proof.protocol.actor.{model}.commit", late)
        assert "published twice" in self.broken(SAME, database, faults=0)

    @pytest.mark.parametrize("database", DATABASES)
    def test_the_intent_in_the_ledger_before_the_commit(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        advance = ModelLedger.advance

        def hasty(self: ModelLedger, claim: Claim, before: AttemptState, after: AttemptState, *facts: Facts) -> None:
            if after is not AttemptState.PUBLISHING:
                advance(self, claim, before, after, *facts)

        monkeypatch.setattr(ModelLedger, "advance", hasty)
        assert "without its intent recorded" in self.broken((Actor("a"),), database)

    @pytest.mark.parametrize("database", DATABASES)
    def test_asking_the_commit_whose_it_was(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        class Anyone(str):
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                return True

        ask = ModelTarget.provenance

        def vague(self: ModelTarget, table: Any, token_name: str, generation: int, at: Any = None) -> CommitNote | None:
            note = ask(self, table, token_name, generation)
            return note and CommitNote(Anyone(note.attempt), note.kind, note.generations, note.intentions)

        monkeypatch.setattr(ModelTarget, "provenance", vague)
        assert "is recorded but did not land" in self.broken(SAME, database)

    @pytest.mark.parametrize("database", DATABASES)
    def test_collecting_only_what_the_table_has_passed(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(collect, "passed_at", lambda attempt, generations: (SLICE.label, 1))
        self.broken(RECOVERED, database)

    def test_the_staged_manifest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The last line behind the one before: files that somebody deleted are not published."""
        monkeypatch.setattr(collect, "passed_at", lambda attempt, generations: (SLICE.label, 1))
        assert "landed without its files" in self.broken(RECOVERED, "delta", without("manifest"))

    @pytest.mark.parametrize("database", DATABASES)
    def test_showing_that_the_same_is_published(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_task, "decide", lambda *_: Decision(True, "always"))
        assert "published twice" in self.broken(SAME, database, faults=0)

    @pytest.mark.parametrize("database", DATABASES)
    def test_the_audit_before_the_publish(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_task, "run_audits", lambda *_: ())
        assert "fail their audit" in self.broken((Actor("b", passes=False),), database, faults=0)
