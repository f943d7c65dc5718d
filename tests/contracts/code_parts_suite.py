"""A ledger keeps what published code was made of, for as long as something on record is of it. `url` is a fresh
ledger's."""

from __future__ import annotations

from datetime import timedelta

from tests.contracts.ledger_suite import HandClock, LedgerSuite, S, claim

from twice.core.ledger.environment import EnvironmentDrop, EnvironmentRecords
from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import Facts, Pruned, SliceRecord
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.table.token import Intention
from twice.ledgers.ledger import Ledger

ONE, TWO = {"write=": "1", "RATE in rates.py": "2", "a in x.py": "ä"}, {"write=": "1"}


def published(ledger: Ledger, attempt: str, code: str, label: str = "a", task: str = "revenue") -> None:
    """By code whose parts are `ONE`."""
    held = claim(ledger, attempt, label, task=task)
    run = ledger.run(task, label)
    generation = run.generation if run else 0
    ledger.fix(held, {label: generation})
    made = SliceRecord(label, generation, Intention(code, "inputs"), 1, "f")
    ledger.advance(held, S.CLAIMED, S.STAGED, Facts(slices=(made,), code_parts={code: ONE}))
    ledger.publish(attempt, Facts(), generations={label: generation + 1})


class CodePartsSuite(LedgerSuite):
    def test_the_parts_of_code_are_kept_in_their_order_and_the_first_ones_stay(self, ledger: Ledger) -> None:
        published(ledger, "one", "code 1")
        assert ledger.code_parts("revenue", ["code 1", "code 9"]) == {"code 1": ONE}
        assert list(ledger.code_parts("revenue", ["code 1"])["code 1"]) == list(ONE)
        held = claim(ledger, "two", "a")
        assert ledger.close_attempt(held.attempt, S.UNCHANGED, Facts(code_parts={"code 1": TWO, "code 2": TWO}))
        assert ledger.code_parts("revenue", ["code 1", "code 2"]) == {"code 1": ONE, "code 2": TWO}
        assert ledger.code_parts("clicks", ["code 1"]) == {}
        assert ledger.code_parts("revenue", []) == {}

    def test_parts_that_nobody_knows_are_not_kept(self, ledger: Ledger) -> None:
        claim(ledger, "one", "a")
        assert ledger.close_attempt("one", S.UNCHANGED, Facts(code_parts={"code 1": {}}))
        assert ledger.code_parts("revenue", ["code 1"]) == {}

    def test_prune_leaves_what_a_slice_is_published_from_and_an_attempt_that_stays(
        self, ledger: Ledger, clock: HandClock
    ) -> None:
        codes = ["code 1", "code 2", "code 3", "code 4", "code 5"]
        published(ledger, "1", "code 1")
        published(ledger, "2", "code 2")
        published(ledger, "3", "code 3", "b")
        staged = claim(ledger, "4", "c")
        ledger.fix(staged, {"c": 0})
        made = SliceRecord("c", 0, Intention("code 4", "inputs"))
        ledger.advance(staged, S.CLAIMED, S.STAGED, Facts(slices=(made,), code_parts={"code 4": ONE}))
        ledger.record_found("revenue", [FoundPublish("d", 1, "lost", Intention("code 5", "inputs"))])
        claim(ledger, "5", "d")
        ledger.close_attempt("5", S.UNCHANGED, Facts(code_parts={"code 5": ONE}))
        clock.tick(100 * 24 * 3600)
        assert ledger.prune(clock.now() - timedelta(days=200)) == Pruned()
        assert list(ledger.code_parts("revenue", codes)) == codes
        assert ledger.prune(clock.now() - timedelta(days=90)) == Pruned(attempts=1)
        assert list(ledger.code_parts("revenue", codes)) == ["code 2", "code 3", "code 4", "code 5"]

    def test_they_follow_a_renamed_task(self, ledger: Ledger) -> None:
        published(ledger, "one", "code 1", task="old")
        published(ledger, "two", "code 2", task="old")
        published(ledger, "three", "code 1", "b", task="new")
        ledger.rename("old", "new")
        assert ledger.code_parts("new", ["code 1", "code 2"]) == {"code 1": ONE, "code 2": ONE}
        assert ledger.code_parts("old", ["code 1", "code 2"]) == {}

    def test_those_of_another_environment_are_neither_seen_nor_pruned_nor_dropped(
        self, url: str, clock: HandClock
    ) -> None:
        prod, preview = (
            Ledger.open(url, clock, owner=RecordOwner("p", name, {"revenue": TaskTable(name, "delta:shop.revenue")}))
            for name in ("prod", "preview")
        )
        try:
            published(prod, "one", "code 1")
            claim(prod, "two", "a")
            prod.close_attempt("two", S.UNCHANGED, Facts(code_parts={"unused": ONE}))
            published(preview, "three", "code 3")
            assert preview.code_parts("revenue", ["code 1", "code 3"]) == {"code 3": ONE}
            preview.prune(clock.now())
            assert isinstance(
                prod.environments.drop("preview", EnvironmentDrop("1", "ana", "merged")), EnvironmentRecords
            )
            assert prod.code_parts("revenue", ["code 1", "unused"]) == {"code 1": ONE, "unused": ONE}
            prod.prune(clock.now() - timedelta(days=1))
            assert prod.code_parts("revenue", ["code 1", "unused"]) == {"code 1": ONE}
            assert preview.code_parts("revenue", ["code 3"]) == {}
        finally:
            preview.close()
            prod.close()
