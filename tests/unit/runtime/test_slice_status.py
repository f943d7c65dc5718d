"""How many slices stand, by the ledger and the inputs' logs: the same answer a run gives, without building its plan."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from twice import Daily, Monthly, Outcome, Policy, append_once, days, read, task
from twice import replace as replace_rows
from twice.core.lineage import what_changed
from twice.core.ports import FUNCTION, PLAN, ChangedRange, Leaf
from twice.core.slice import Slice
from twice.core.task import Task
from twice.engine.plain import PlainEngine
from twice.errors import TwiceError
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.staleness.touched import _instants
from twice.targets.memory.rows import Rows

from .conftest import Bench, revenue_task, summed

FIRST = date(2026, 6, 1)


def span(declared: Task, first: str = "2026-06-01", last: str = "2026-06-08") -> tuple[Slice, ...]:
    scope = declared.scope
    assert isinstance(scope, (Daily, Monthly))
    return tuple(scope.through(scope.slice_of(first), scope.slice_of(last)))


def statuses(bench: Bench, declared: Task, slices: tuple[Slice, ...] | None = None) -> dict[str, tuple[str, str]]:
    found = slice_statuses(bench.context, declared, slices or span(declared), None)
    return {each.label[-2:]: (each.status, each.why) for each in found}


def rows(*changed: int, count: int = 8) -> list[tuple[int, date, int | None]]:
    return [(n, FIRST + timedelta(days=n), 100 + (n in changed)) for n in range(count)]


@pytest.fixture
def declared(bench: Bench) -> Task:
    bench.put_orders(*rows())
    return bench.declare(revenue_task())


def test_a_slice_nobody_published_is_missing(bench: Bench, declared: Task) -> None:
    assert set(statuses(bench, declared).values()) == {("missing", "never published")}


def test_a_published_slice_is_published_and_other_days_stay_missing(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    found = statuses(bench, declared)
    assert found.pop("03") == ("published", "same code, same inputs")
    assert {status for status, _ in found.values()} == {"missing"}


def test_only_the_days_whose_input_changed_are_stale_and_the_version_is_reported(bench: Bench, declared: Task) -> None:
    for slice_ in span(declared):
        bench.run(declared, slice_.label)
    bench.put_orders(*rows(2, 5))
    found = statuses(bench, declared)
    since = "its input shop.orders changed since version 2"
    assert {label for label, (status, _) in found.items() if status == "stale"} == {"03", "06"}
    assert found["03"] == ("stale", since)


def test_the_first_and_the_last_day_there_are_in_an_input_concern_no_other_day(bench: Bench, declared: Task) -> None:
    """People write 9999-12-31 for "no date yet"."""
    bench.run(declared, "2026-06-03")
    bench.put_orders(*rows(), (90, date.max, 1), (91, date.min, 1))
    assert statuses(bench, declared)["03"] == ("published", "same code, same inputs")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_day_that_begins_before_the_first_instant_or_ends_after_the_last_is_cut_to_them(zone: str) -> None:
    low, high = _instants(ChangedRange(1, date.min, date.max), ZoneInfo(zone))
    assert (low.date(), high.date()) == (date.min, date.max)


def test_other_code_makes_every_published_slice_stale(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    bench.code[0] = "v2"
    assert statuses(bench, declared)["03"] == ("stale", "the code or its options changed")


def test_a_failed_slice_is_failed_published_or_not(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")

    def broken(orders: Rows) -> Rows:
        raise ValueError("no")

    bad = bench.declare(revenue_task(broken))
    bench.code[0] = "v2"
    for label in ("2026-06-03", "2026-06-04"):
        with pytest.raises(TwiceError):
            bench.run(bad, label)
    found = statuses(bench, bad)
    assert {label: found[label][0] for label in ("03", "04", "05")} == {"03": "failed", "04": "failed", "05": "missing"}


def test_what_the_policy_never_reruns_is_published(bench: Bench) -> None:
    bench.put_orders(*rows())
    declared = bench.declare(revenue_task(policy=Policy(rerun="never")))
    bench.run(declared, "2026-06-03")
    bench.code[0] = "v2"
    assert statuses(bench, declared)["03"][0] == "published"


def test_a_run_that_leaves_a_slice_by_policy_does_not_show_that_it_is_right(bench: Bench) -> None:
    bench.put_orders(*rows())
    kept = bench.declare(revenue_task(policy=Policy(rerun="never")))
    bench.run(kept, "2026-06-03")
    bench.put_orders(*rows(2))
    assert bench.run(kept, "2026-06-03").outcome is Outcome.ALREADY
    declared = bench.declare(revenue_task())
    assert statuses(bench, declared)["03"] == ("stale", "its input shop.orders changed since version 2")


def test_a_run_that_leaves_a_slice_by_policy_and_finds_it_the_same_shows_that_it_is_right(bench: Bench) -> None:
    bench.put_orders(*rows())
    kept = bench.declare(revenue_task(policy=Policy(rerun="never")))
    bench.run(kept, "2026-06-03")
    bench.put_orders(*rows(2))
    bench.put_orders(*rows())
    bench.run(kept, "2026-06-03")
    assert statuses(bench, bench.declare(revenue_task()))["03"] == ("published", "same code, same inputs")


def test_a_slice_that_a_run_found_unchanged_is_known_to_be_right_up_to_there(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    bench.put_orders(*rows(2))
    bench.put_orders(*rows())  # and back again: the log says touched, the run says the same rows
    assert statuses(bench, declared)["03"][0] == "stale"
    assert bench.run(declared, "2026-06-03").outcome is Outcome.ALREADY
    assert statuses(bench, declared)["03"] == ("published", "same code, same inputs")


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
    found = statuses(bench, declared)
    assert [label for label, (status, _) in found.items() if status == "stale"] == ["03", "04", "05"]


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
    found = statuses(bench, declared)
    assert [found["01"][0], found["02"][0], found["03"][0]] == ["stale", "stale", "missing"]


def test_where_the_ledger_is_lost_nobody_remembers_and_the_run_will_look(bench: Bench, declared: Task) -> None:
    bench.run(declared, "2026-06-03")
    bench.ledger.forget("revenue", "2026-06-03")
    assert statuses(bench, declared)["03"] == ("stale", "there is no record of what it was computed from")


RECREATED = "its input shop.orders was recreated, or replaced by an older copy, since version 2 of it was read"


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_an_input_that_was_dropped_and_made_again_is_another_one_at_whatever_version(
    bench: Bench, declared: Task, commits: int
) -> None:
    bench.run(declared, "2026-06-03")
    bench.target._tables.pop("shop.orders")
    for _ in range(commits):
        bench.put_orders(*rows(2))
    assert statuses(bench, declared)["03"] == ("stale", RECREATED)
    bench.run(declared, "2026-06-03")
    assert statuses(bench, declared)["03"] == ("published", "same code, same inputs")


def test_of_a_slice_that_an_earlier_version_pinned_without_an_id_the_version_is_compared(
    bench: Bench, declared: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        published = bench.target.published
        patch.setattr(bench.target, "published", lambda *asked: replace(published(*asked), id=None))
        bench.run(declared, "2026-06-03")
    assert statuses(bench, declared)["03"] == ("published", "same code, same inputs")
    bench.target._tables.pop("shop.orders")
    bench.put_orders(*rows(2))
    assert statuses(bench, declared)["03"] == ("stale", RECREATED)


def test_what_the_logs_call_published_a_run_finds_published_too(bench: Bench, declared: Task) -> None:
    """In doubt stale, never the other way round: over many random changes of the input."""
    chance = random.Random(7)
    for _ in range(25):
        for slice_ in span(declared):
            if chance.random() < 0.5:
                run_task(bench.context, declared, (slice_,))
        bench.put_orders(*rows(*(n for n in range(8) if chance.random() < 0.2)))
        found = statuses(bench, declared)
        for slice_ in span(declared):
            if found[slice_.label[-2:]][0] == "published":
                assert run_task(bench.context, declared, (slice_,)).outcome is Outcome.ALREADY


@dataclass(frozen=True)
class PlannedEngine(PlainEngine):
    """Plain rows that also have a plan, as Spark's have: what stands in it, and how often it was asked for."""

    held: list[str | None] = field(default_factory=lambda: ["constants"])
    asked: list[int] = field(default_factory=list)

    def outside(self, frame: Any, cuts: Any, function: Any) -> tuple[Leaf, ...]:
        self.asked.append(1)
        return (Leaf(PLAN, "expressions and constants", self.held[0]),)


def planned(bench: Bench, declared: Task) -> PlannedEngine:
    engine = PlannedEngine()
    bench.context = replace(bench.context, engine=engine)
    for slice_ in span(declared)[:5]:
        bench.run(declared, slice_.label)
    engine.asked.clear()
    return engine


def test_one_plan_shows_for_all_slices_that_nothing_beside_their_tables_changed(bench: Bench, declared: Task) -> None:
    engine = planned(bench, declared)
    assert [status for status, _ in statuses(bench, declared).values()] == ["published"] * 5 + ["missing"] * 3
    assert len(engine.asked) == 1


def test_other_constants_in_the_plan_make_a_slice_stale_as_for_a_run(bench: Bench, declared: Task) -> None:
    engine = planned(bench, declared)
    engine.held[0] = "other constants"
    why = "its code makes another plan than before, of values that it takes from elsewhere"
    assert statuses(bench, declared)["03"] == ("stale", why)
    assert bench.run(declared, "2026-06-03").why == why
    assert statuses(bench, declared)["03"] == ("published", "same code, same inputs")


def test_a_task_that_asks_for_the_run_is_looked_at_slice_by_slice(bench: Bench) -> None:
    """Its code can distinguish slices: one plan shows nothing of the others."""
    bench.put_orders(*rows())
    asking = bench.declare(revenue_task(lambda orders, run: summed(orders)))
    engine = planned(bench, asking)
    assert [status for status, _ in statuses(bench, asking).values()] == ["published"] * 5 + ["missing"] * 3
    assert len(engine.asked) == 5


def test_what_nobody_can_compare_is_stale_as_for_a_run(bench: Bench, declared: Task) -> None:
    engine = planned(bench, declared)
    engine.held[0] = None
    bench.run(declared, "2026-06-03")
    why = "nothing shows that it is the same: its plan expressions and constants"
    assert statuses(bench, declared)["03"] == ("stale", why)
    assert bench.run(declared, "2026-06-03").why == why


def test_code_that_fails_now_makes_a_slice_stale_not_the_question(bench: Bench, declared: Task) -> None:
    planned(bench, declared)

    def broken(orders: Rows) -> Rows:
        raise ValueError("no such setting")

    bad = bench.declare(revenue_task(broken))
    status, why = statuses(bench, bad)["03"]
    assert status == "stale"
    assert why.startswith("its plan cannot be made now: the task's own code raised ValueError")


@dataclass(frozen=True)
class OlderEngine(PlainEngine):
    """As twice once was: tables were compared, and nothing beside them."""

    def leaves(self, frame: Any, before: Any = ()) -> tuple[Leaf, ...]:
        return tuple(replace(leaf, kind="delta", name="shop.orders") for leaf in super().leaves(frame, before))


@dataclass(frozen=True)
class NewerEngine(OlderEngine):
    def outside(self, frame: Any, cuts: Any, function: Any) -> tuple[Leaf, ...]:
        return (Leaf(PLAN, "expressions and constants", "1"),)


def test_what_an_earlier_version_appended_stays_without_a_word_and_what_changed_since_is_reported(bench: Bench) -> None:
    """It compared less: that is no reason to say that inputs changed."""
    bench.put_orders(*rows())
    declared = bench.declare(
        task(
            "shop.revenue",
            scope=Daily("order_date", start="2026-01-01"),
            inputs={"orders": read("shop.orders", by="order_date")},
            write=append_once(),
            name="revenue",
        )(summed)
    )
    bench.context = replace(bench.context, engine=OlderEngine())
    bench.run(declared, "2026-06-03")
    bench.context = replace(bench.context, engine=NewerEngine())
    again = bench.run(declared, "2026-06-03")
    assert (again.outcome, again.notes) == (Outcome.ALREADY, ())
    bench.run(declared, "2026-06-04")
    bench.put_orders(*rows(3))
    changed = bench.run(declared, "2026-06-04")
    assert (changed.outcome, changed.notes) == (
        Outcome.ALREADY,
        ("what was appended stays, although its inputs changed",),
    )


def test_of_other_code_and_other_inputs_both_are_reported(bench: Bench) -> None:
    bench.put_orders(*rows())
    bench.context = replace(bench.context, engine=NewerEngine())
    appending = bench.declare(replace(revenue_task(), write=append_once()))
    bench.run(appending, "2026-06-03")
    bench.code[0] = "v2"
    assert bench.run(appending, "2026-06-03").notes == (
        "what was appended stays, although the code or its options changed",
    )
    bench.put_orders(*rows(2))
    assert bench.run(appending, "2026-06-03").notes == (
        "what was appended stays, although the code or its options changed, and its inputs changed",
    )


def test_a_backfill_reports_both_too(bench: Bench, declared: Task) -> None:
    planned(bench, declared)
    bench.put_orders(*rows(2))
    _, why = statuses(bench, declared)["03"]
    bench.code[0] = "v2"
    assert statuses(bench, declared)["03"] == ("stale", f"the code or its options changed, and {why}")
    assert statuses(bench, declared)["04"] == ("stale", "the code or its options changed")


EARLIER = "an earlier version of twice published it, and did not record what its code takes from elsewhere"


def test_what_an_earlier_version_published_is_stale_for_every_command_and_for_that_reason(
    bench: Bench, declared: Task
) -> None:
    bench.context = replace(bench.context, engine=OlderEngine())
    for slice_ in span(declared)[:2]:
        bench.run(declared, slice_.label)
    bench.context = replace(bench.context, engine=NewerEngine())
    first, second = span(declared)[:2]
    assert statuses(bench, declared)["01"] == ("stale", EARLIER)
    assert explain(bench.context, declared, first).why == EARLIER
    assert bench.run(declared, first.label).why == EARLIER
    assert statuses(bench, declared)["01"] == ("published", "same code, same inputs")
    bench.put_orders(*rows(1))
    assert statuses(bench, declared)["02"] == ("stale", "its input shop.orders changed since version 2")
    assert explain(bench.context, declared, second).why == "its inputs changed"


def test_a_query_that_an_earlier_version_published_is_computed_once_more(bench: Bench, declared: Task) -> None:
    """What its views and the functions of the catalog meant then, nobody recorded."""
    query = bench.declare(replace(declared, sql="SELECT 1"))
    bench.context = replace(bench.context, engine=OlderEngine())
    bench.run(query, "2026-06-01")
    bench.context = replace(bench.context, engine=NewerEngine())
    assert statuses(bench, query)["01"] == ("stale", EARLIER)
    assert bench.run(query, "2026-06-01").why == EARLIER
    assert statuses(bench, query)["01"] == ("published", "same code, same inputs")


def test_a_slice_that_reads_only_files_is_compared_as_for_a_run(bench: Bench) -> None:
    held = {"amount": 1}
    declared = bench.declare(
        task("shop.revenue", scope=Daily("order_date", start="2026-01-01"), write=replace_rows(), name="revenue")(
            lambda run: Rows(summed(Rows((), ())).columns, ((run.slice.start.date(), held["amount"]),))
        )
    )
    bench.context = replace(bench.context, engine=NewerEngine())
    bench.run(declared, "2026-06-03")
    slice_ = span(declared)[2]
    found = statuses(bench, declared)["03"]
    assert (
        found == ("published", explain(bench.context, declared, slice_).why) == ("published", "same code, same inputs")
    )
    held["amount"] = 2
    found = statuses(bench, declared)["03"]
    assert found == ("stale", explain(bench.context, declared, slice_).why) == ("stale", "its inputs changed")


def test_a_function_of_other_values_is_distinguished_from_other_constants() -> None:
    table, plan = Leaf("delta", "t", "1", 1), Leaf(PLAN, "", "p")
    one, two = Leaf(FUNCTION, "f", "1"), Leaf(FUNCTION, "f", "2")
    assert what_changed((table, plan, one), (table, plan, one)) is None
    assert what_changed((table, plan, two), (table, plan, one)) == "a function that it calls computes with other values"
    assert what_changed((Leaf("delta", "t", "2", 2), plan, two), (table, plan, one)) == "its inputs changed"
