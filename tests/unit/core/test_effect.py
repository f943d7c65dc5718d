"""Effects as they are declared, their keys, and what follows from what happened to them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from twice import Daily, PublishedSlice, Since, append_once, call, email, read, replace, slack, task, webhook
from twice.core.audit import AuditResult
from twice.core.effect import Message, tidy_effects
from twice.core.ledger.outbox import EffectRecord, EffectState, key_of, occasion_of, too_late, wait_before
from twice.errors import DeclarationError

NOON = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: slack(" ", text="x"), "the channel is empty"),
        (lambda: slack("#a", text="x", name=" "), "a name that is not empty"),
        (lambda: slack("#a", text="x", again="sometimes"), "again='sometimes' is not known"),  # type: ignore[arg-type]
        (lambda: slack("#a", text="x", sample=101), "sample=101 is not a small sample"),
        (lambda: email("ana", subject="s", body="b"), "'ana' is not a valid address"),
        (lambda: email([], subject="s", body="b"), "the list of addresses is empty"),
        (lambda: webhook("ftp://example.com", body="x"), "is not a valid http"),
        (lambda: webhook("https://example.com", body="x", headers={"X\nY": "1"}), "cannot be sent"),
        (lambda: webhook("https://example.com", body="x", key_lifetime=timedelta(0)), "is over at once"),
        (lambda: tidy_effects([slack("#a", text="x"), slack("#b", text="x")], "t"), "two effects are named slack"),
        (lambda: tidy_effects(["hello"], "t"), "effects= takes slack"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused_where_it_stands(declare: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


def test_an_effect_that_would_be_sent_once_of_an_incremental_task_is_refused() -> None:
    def declare(again: Any) -> Any:
        return task(
            "shop.log",
            scope=Since("id", initial=0),
            inputs={"events": read("shop.events", by="id")},
            write=append_once(),
            effects=[slack("#a", text="x", again=again)],
            name="log",
        )(lambda events: events)

    with pytest.raises(DeclarationError, match="would be sent once and never again"):
        declare("never")
    assert declare("on_restate").effects


def test_a_secret_by_reference_is_taken() -> None:
    effect = webhook("https://ana:${env:PW}@example.com/?token=${env:T}", body="x", headers={"X-Api-Key": "${env:K}"})
    assert effect.to == ("https://ana:${env:PW}@example.com/?token=${env:T}",)
    assert webhook("${env:HOOK}", body="x").to == ("${env:HOOK}",)


def test_a_call_is_named_after_its_function() -> None:
    def pay(result: PublishedSlice, key: str) -> None: ...

    assert call(pay, keyed=True).name == "pay"
    assert call(lambda result, key: None, keyed=True).name == "call"


def test_a_task_keeps_its_effects() -> None:
    day = Daily("day", start="2026-01-01")
    declare = task("shop.revenue", scope=day, write=replace(), effects=[slack("#a", text="x")], name="revenue")
    declared = declare(lambda: None)
    assert [effect.name for effect in declared.effects] == ["slack"]


def test_a_result_and_a_message_come_back_from_the_ledger_as_they_were() -> None:
    audits = (AuditResult("rows", "warn", False, "no rows"),)
    result = PublishedSlice("p", "t", "2026-06-09", 2, 3, "f", 7, audits, ({"region": "éu", "amount": "1.50"},))
    assert PublishedSlice.from_json(result.to_json()) == result
    message = Message(("a", "b"), "text\nwith ünicode", {"X": "1"})
    assert Message.from_json(message.to_json()) == message


WHOSE = ("p", "dev", "delta:shop.revenue")


def test_no_two_lists_of_words_have_one_key() -> None:
    assert key_of(WHOSE, "ab", "c", "n", "") != key_of(WHOSE, "a", "bc", "n", "")
    assert key_of(WHOSE, "t", "l", "n", "1") != key_of(WHOSE, "t", "l", "n", "")
    assert key_of(("p", "de", "vx"), "t", "l", "n", "") != key_of(("p", "dev", "x"), "t", "l", "n", "")


def test_the_key_of_an_effect_differs_in_each_project_environment_and_table() -> None:
    elsewhere = [("q", *WHOSE[1:]), ("p", "prod", WHOSE[2]), ("p", "dev", "delta:shop.other")]
    assert len({key_of(whose, "t", "l", "n", "") for whose in (WHOSE, *elsewhere)}) == 4


def test_what_makes_one_message_differ_from_the_next() -> None:
    assert [occasion_of(again, 3, "f") for again in ("never", "on_restate", "when_changed")] == ["", "3", "3:f"]


def record(**changes: Any) -> EffectRecord:
    known: dict[str, Any] = dict.fromkeys(EffectRecord.__dataclass_fields__)
    known |= {"id": 1, "key": "8" * 64, "state": EffectState.PENDING, "keyed": True, "fence": 1}
    return EffectRecord(**{**known, "remembers": timedelta(hours=24), **changes})


def test_each_try_waits_twice_as_long_and_never_less_than_the_receiver_asks() -> None:
    waits = [wait_before(record(fence=tries), None).total_seconds() for tries in range(1, 20)]
    assert waits == sorted(waits)
    assert waits[1] / waits[0] == pytest.approx(2)
    assert max(waits) <= 1.25 * 3600
    assert wait_before(record(), timedelta(hours=2)) == timedelta(hours=2)


def test_a_key_is_used_only_while_it_is_surely_remembered() -> None:
    assert too_late(record(), NOON) is None
    assert too_late(record(doubt_since=NOON - timedelta(hours=20)), NOON) is None
    late = too_late(record(doubt_since=NOON - timedelta(hours=23)), NOON)
    assert late is not None
    assert late.state is EffectState.IN_DOUBT
