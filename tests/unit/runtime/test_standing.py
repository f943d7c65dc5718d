"""How many slices stand, by the ledger and the inputs' logs: the same answer a run gives, without building its plan."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from twice import Daily, Monthly, Outcome, Policy, days, read, task
from twice import replace as replace_rows
from twice.core.slice import Slice
from twice.core.task import Task
from twice.errors import TwiceError
from twice.runtime.run_task import run_task
from twice.runtime.standing import standings
from twice.targets.memory import Rows

from .conftest import Bench, revenue_task, summed

FIRST = date(2026, 6, 1)


def span(declared: Task, first: str = "2026-06-01", last: str = "2026-06-08") -> tuple[Slice, ...]:
    scope = declared.scope
    assert isinstance(scope, (Daily, Monthly))
    return tuple(scope.through(scope.slice_of(first), scope.slice_of(last)))


def told(bench: Bench, declared: Task, slices: tuple[Slice, ...] | None = None) -> dict[str, tuple[str, str]]:
    found = standings(bench.shop, declared, slices or span(declared), None)
    return {each.label[-2:]: (each.standing, each.why) for each in found}


def rows(*changed: int, count: int = 8) -> list[tuple[int, date, int | None]]:
    return [(n, FIRST + timedelta(days=n), 100 + (n in changed)) for n in range(count)]


@pytest.fixture
def declared(bench: Bench) -> Task:
    bench.put_orders(*rows())
    return bench.declare(revenue_task())


def test_a_slice_nobody_published_is_missing(bench: Bench, declared: Task) -> None:
    assert set(told(bench, declared).values()) == {("missing", "never published")}


def test_a_published_slice_is_published_and_other_days_stay_missing(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    found = told(bench, declared)
    assert found.pop("03") == ("published", "same code, same inputs")
    assert {standing for standing, _ in found.values()} == {"missing"}


def test_only_the_days_whose_input_changed_are_stale_and_the_version_is_told(bench: Bench, declared: Task) -> None:
    for slice_ in span(declared):
        bench.run(declared, slice_.label)
    bench.put_orders(*rows(2, 5))
    found = told(bench, declared)
    since = "its input shop.orders changed since version 2"
    assert {label for label, (standing, _) in found.items() if standing == "stale"} == {"03", "06"}
    assert found["03"] == ("stale", since)


def test_other_code_makes_every_published_slice_stale(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    bench.code[0] = "v2"
    assert told(bench, declared)["03"] == ("stale", "the code or its options changed")


def test_a_failed_slice_is_failed_published_or_not(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")

    def broken(orders: Rows) -> Rows:
        raise ValueError("no")

    bad = bench.declare(revenue_task(broken))
    bench.code[0] = "v2"
    for label in ("2026-06-03", "2026-06-04"):
        with pytest.raises(TwiceError):
            bench.run(bad, label)
    found = told(bench, bad)
    assert {label: found[label][0] for label in ("03", "04", "05")} == {"03": "failed", "04": "failed", "05": "missing"}


def test_what_the_policy_never_reruns_is_published(bench: Bench) -> None:
    bench.put_orders(*rows())
    declared = bench.declare(revenue_task(policy=Policy(rerun="never")))
    bench.run(declared, "2026-06-03")
    bench.code[0] = "v2"
    assert told(bench, declared)["03"][0] == "published"


def test_a_slice_that_a_run_found_unchanged_is_known_to_be_right_up_to_there(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    bench.put_orders(*rows(2))
    bench.put_orders(*rows())  # and back again: the log says touched, the run says the same rows
    assert told(bench, declared)["03"][0] == "stale"
    assert bench.run(declared, "2026-06-03").outcome is Outcome.ALREADY
    assert told(bench, declared)["03"] == ("published", "same code, same inputs")


def test_a_day_that_looks_back_is_touched_by_the_days_before_it(bench: Bench) -> None:
    bench.put_orders(*rows())
    declared = bench.declare(
        task(
            "shop.revenue",
            scope=Daily("order_date", start="2026-01-01"),
            inputs={"orders": read("shop.orders", by="order_date", before=days(2))},
            write=replace_rows(),
            name="revenue",
        )(lambda orders: Rows(summed(orders).columns, summed(orders).rows[-1:]))
    )
    for slice_ in span(declared):
        bench.run(declared, slice_.label)
    bench.put_orders(*rows(2))
    found = told(bench, declared)
    assert [label for label, (standing, _) in found.items() if standing == "stale"] == ["03", "04", "05"]


def test_an_input_read_whole_touches_every_slice(bench: Bench) -> None:
    bench.put_orders(*rows())
    declared = bench.declare(
        task(
            "shop.revenue",
            scope=Daily("order_date", start="2026-01-01"),
            inputs={"orders": read("shop.orders")},
            write=replace_rows(),
            name="revenue",
        )(lambda orders: Rows(summed(orders).columns, ()))
    )
    for slice_ in span(declared)[:2]:
        bench.run(declared, slice_.label)
    bench.put_orders(*rows(7))
    found = told(bench, declared)
    assert [found["01"][0], found["02"][0], found["03"][0]] == ["stale", "stale", "missing"]


def test_where_the_ledger_is_lost_nobody_remembers_and_the_run_will_look(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    bench.ledger.forget("revenue", "2026-06-03")
    assert told(bench, declared)["03"] == ("stale", "nobody remembers from what it was computed")


def test_what_the_logs_call_published_a_run_finds_published_too(bench: Bench, declared: Task) -> None:
    """In doubt stale, never the other way round: over many random changes of the input."""
    chance = random.Random(7)
    for _ in range(25):
        for slice_ in span(declared):
            if chance.random() < 0.5:
                run_task(bench.shop, declared, (slice_,))
        bench.put_orders(*rows(*(n for n in range(8) if chance.random() < 0.2)))
        found = told(bench, declared)
        for slice_ in span(declared):
            if found[slice_.label[-2:]][0] == "published":
                assert run_task(bench.shop, declared, (slice_,)).outcome is Outcome.ALREADY
