"""The hash of unchanged code stays from one release to the next: another one makes every published slice stale.

A value counts with the module of its class, so what a task declares, or may hold as a value, cannot be moved."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import twice
import twice.keys
from twice import Daily, Every, Hourly, Monthly, Policy, Retry, Since, Whole, audit, days, read, webhook
from twice.core.task import Strategy, TableName, Task
from twice.engine.code.code_hash import code_hash

DAILY = Daily("order_date", start="2026-01-01")


def hash_of(write: Strategy, *held: Any) -> str:
    """Of a task whose function is no more than the values it holds."""
    return code_hash(Task("t", TableName("shop.t"), DAILY, {"orders": read("shop.orders")}, write, partial(len, *held)))


@pytest.mark.parametrize(
    ("write", "pinned"),
    [
        (twice.replace(), "fce8b9af629f47d60c21ffd63e95eeda"),
        (twice.merge("id", newest_by="at"), "53af72f94a468d8c0efcc0cf9dac89ff"),
        (twice.insert_new("id"), "0492c52d1b2238a7e2db91a074ff43f2"),
        (twice.append_once(), "e4f5209db883ce42f0d610e712703924"),
    ],
)
def test_the_hash_of_a_task_by_its_strategy_stays(write: Strategy, pinned: str) -> None:
    assert hash_of(write) == pinned


@pytest.mark.parametrize(
    ("held", "pinned"),
    [
        (DAILY, "4827f28313a15fd7650449e13f974b69"),
        (Monthly("day", start="2026-01"), "c6f13f824ff8746bc3c9c4d4700804fd"),
        (Hourly("at", start="2026-01-01T00"), "002beb2ddbbb560a49807701736deacd"),
        (Every("at", minutes=15, start="2026-01-01T00:00"), "c52642eca8e1c000d3468eca99af01c7"),
        (Since("at", initial="2026-01-01T00:00:00Z"), "8f4d21e632e3bbf8209f74a86b960e32"),
        (Whole(), "857e44aa93e51e8eec10aa233e2ee173"),
        (Policy(retry=Retry(attempts=2)), "8fc7dab2a30b424cbba5f24e4b41a3eb"),
        (read("shop.orders", by="order_date", before=days(1)), "1646968826455c1580bfe35bd2b9b260"),
        (audit.not_null("id"), "d0357a840a6fd6c4375c247932900843"),
        (webhook("https://example.com/hook", body={"a": 1}), "f3950401acec61734dfbe585b00bb737"),
        (days, "eb0f83fbd746a7d33ee0a91712216060"),
        (twice.surrogate_key, "0598e53e636419bfb60c41cae63e4c4d"),
        (twice.keys.surrogate_key, "9d23d8dd95ce4871d46c5b39a0118374"),
        (twice.keys.WallTime, "6d41ae76e4fc73e0b9fe13f5d5cdc845"),
    ],
)
def test_the_hash_of_a_task_that_holds_a_declaration_stays(held: Any, pinned: str) -> None:
    assert hash_of(twice.replace(), held) == pinned


def test_how_files_are_read_is_code_and_which_files_or_values_is_not() -> None:
    """Which they are, the leaves of a slice say: moved to another folder they are the same code."""

    def hashed(**inputs: Any) -> str:
        return code_hash(Task("t", TableName("shop.t"), DAILY, inputs, twice.replace(), partial(len, inputs.keys())))

    def files(pattern: str = "a/{ds}", **more: Any) -> twice.Files:
        return read.files(pattern, **{"format": "csv", "schema": "a INT", **more})

    known = hashed(orders=files())
    assert known == "c42b4e36e0427fef57f580815c1dcb59"
    assert hashed(orders=files("b/{ds}/*", missing="empty", watch=False)) == known
    others = (
        {"format": "json"},
        {"schema": "a BIGINT"},
        {"options": {"header": True}},
        {"by": "a"},
        {"path_column": "f"},
    )
    assert known not in {hashed(orders=files(**other)) for other in others}
    assert hashed(fx=twice.param(1)) == hashed(fx=twice.param.json("fx.json")) == "270e3d8918c2982d228407bc0aa04ef9"
    assert hashed(orders=read("shop.orders")) == hashed(orders=read("shop.orders", watch=False))


def test_tags_say_nothing_about_rows() -> None:
    def tagged(tags: tuple[str, ...]) -> str:
        inputs = {"orders": read("shop.orders")}
        return code_hash(Task("t", TableName("shop.t"), DAILY, inputs, twice.replace(), partial(len), tags=tags))

    assert tagged(()) == tagged(("finance", "slow")) == hash_of(twice.replace())


def test_a_field_that_came_later_counts_where_somebody_says_it() -> None:
    assert hash_of(twice.replace(), read("shop.orders")) != hash_of(twice.replace(), read("shop.orders", watch=False))
