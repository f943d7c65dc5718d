"""How many slices stand, by the ledger and the inputs' logs: the same answer a run gives, without building its plan."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.runtime.conftest import RuntimeSetup, revenue_task, summed

from twice import Daily, Monthly, Outcome, Policy, append_once, days, read, task
from twice import replace as replace_rows
from twice.core.lineage import InputChange, what_changed
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

FIRST = date(2026, 6, 1)


def span(declared: Task, first: str = "2026-06-01", last: str = "2026-06-08") -> tuple[Slice, ...]:
    scope = declared.scope
    assert isinstance(scope, (Daily, Monthly))
    return tuple(scope.through(scope.slice_of(first), scope.slice_of(last)))


def statuses(
    runtime: RuntimeSetup, declared: Task, slices: tuple[Slice, ...] | None = None
) -> dict[str, tuple[str, str]]:
    found = slice_statuses(runtime.context, declared, slices or span(declared), None)
    return {each.label[-2:]: (each.status, each.why) for each in found}


def rows(*changed: int, count: int = 8) -> list[tuple[int, date, int | None]]:
    return [(n, FIRST + timedelta(days=n), 100 + (n in changed)) for n in range(count)]


@pytest.fixture
def declared(runtime: RuntimeSetup) -> Task:
    runtime.put_orders(*rows())
    return runtime.declare(revenue_task())


def test_a_slice_nobody_published_is_missing(runtime: RuntimeSetup, declared: Task) -> None:
    assert set(statuses(runtime, declared).values()) == {("missing", "never published")}


def test_a_published_slice_is_published_and_other_days_stay_missing(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared, "2026-06-03")
    found = statuses(runtime, declared)
    assert found.pop("03") == ("published", "same code, same inputs")
    assert {status for status, _ in found.values()} == {"missing"}


def test_only_the_days_whose_input_changed_are_stale_and_the_version_is_reported(
    runtime: RuntimeSetup, declared: Task
) -> None:
    for slice_ in span(declared):
        runtime.run(declared, slice_.label)
    runtime.put_orders(*rows(2, 5))
    found = statuses(runtime, declared)
    since = "its input shop.orders changed since version 2"
    assert {label for label, (status, _) in found.items() if status == "stale"} == {"03", "06"}
    assert found["03"] == ("stale", since)


def test_the_first_and_the_last_day_there_are_in_an_input_concern_no_other_day(
    runtime: RuntimeSetup, declared: Task
) -> None:
    """People write 9999-12-31 for "no date yet"."""
    runtime.run(declared, "2026-06-03")
    runtime.put_orders(*rows(), (90, date.max, 1), (91, date.min, 1))
    assert statuses(runtime, declared)["03"] == ("published", "same code, same inputs")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_day_that_begins_before_the_first_instant_or_ends_after_the_last_is_cut_to_them(zone: str) -> None:
    low, high = _instants(ChangedRange(1, date.min, date.max), ZoneInfo(zone))
    assert (low.date(), high.date()) == (date.min, date.max)


def test_other_code_makes_every_published_slice_stale(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared, "2026-06-03")
    runtime.code[0] = "v2"
    assert statuses(runtime, declared)["03"] == ("stale", "the code or its options changed")


def test_a_failed_slice_is_failed_published_or_not(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared, "2026-06-03")

    def broken(orders: Rows) -> Rows:
        raise ValueError("no")

    bad = runtime.declare(revenue_task(broken))
    runtime.code[0] = "v2"
    for label in ("2026-06-03", "2026-06-04"):
        with pytest.raises(TwiceError):
            runtime.run(bad, label)
    found = statuses(runtime, bad)
    assert {label: found[label][0] for label in ("03", "04", "05")} == {"03": "failed", "04": "failed", "05": "missing"}


def test_what_the_policy_never_reruns_is_published(runtime: RuntimeSetup) -> None:
    runtime.put_orders(*rows())
    declared = runtime.declare(revenue_task(policy=Policy(rerun="never")))
    runtime.run(declared, "2026-06-03")
    runtime.code[0] = "v2"
    assert statuses(runtime, declared)["03"][0] == "published"


def test_a_run_that_leaves_a_slice_by_policy_does_not_show_that_it_is_right(runtime: RuntimeSetup) -> None:
    runtime.put_orders(*rows())
    kept = runtime.declare(revenue_task(policy=Policy(rerun="never")))
    runtime.run(kept, "2026-06-03")
    runtime.put_orders(*rows(2))
    assert runtime.run(kept, "2026-06-03").outcome is Outcome.ALREADY
    declared = runtime.declare(revenue_task())
    assert statuses(runtime, declared)["03"] == ("stale", "its input shop.orders changed since version 2")


def test_a_run_that_leaves_a_slice_by_policy_and_finds_it_the_same_shows_that_it_is_right(
    runtime: RuntimeSetup,
) -> None:
    runtime.put_orders(*rows())
    kept = runtime.declare(revenue_task(policy=Policy(rerun="never")))
    runtime.run(kept, "2026-06-03")
    runtime.put_orders(*rows(2))
    runtime.put_orders(*rows())
    runtime.run(kept, "2026-06-03")
    assert statuses(runtime, runtime.declare(revenue_task()))["03"] == ("published", "same code, same inputs")


def test_a_slice_that_a_run_found_unchanged_is_known_to_be_right_up_to_there(
    runtime: RuntimeSetup, declared: Task
) -> None:
    runtime.run(declared, "2026-06-03")
    runtime.put_orders(*rows(2))
    runtime.put_orders(*rows())  # and back again: the log says touched, the run says the same rows
    assert statuses(runtime, declared)["03"][0] == "stale"
    assert runtime.run(declared, "2026-06-03").outcome is Outcome.ALREADY
    assert statuses(runtime, declared)["03"] == ("published", "same code, same inputs")


def test_a_day_that_looks_back_is_touched_by_the_days_before_it(runtime: RuntimeSetup) -> None:
    runtime.put_orders(*rows())
    declared = runtime.declare(
        task(
            "shop.revenue",
            scope=Daily("order_date", start="2026-01-01"),
            inputs={"orders": read("shop.orders", by="order_date", before=days(2))},
            write=replace_rows(),
            name="revenue",
        )(lambda orders: Rows(summed(orders).columns, summed(orders).rows[-1:]))
    )
    for slice_ in span(declared):
        runtime.run(declared, slice_.label)
    runtime.put_orders(*rows(2))
    found = statuses(runtime, declared)
    assert [label for label, (status, _) in found.items() if status == "stale"] == ["03", "04", "05"]


def test_an_input_read_whole_touches_every_slice(runtime: RuntimeSetup) -> None:
    runtime.put_orders(*rows())
    declared = runtime.declare(
        task(
            "shop.revenue",
            scope=Daily("order_date", start="2026-01-01"),
            inputs={"orders": read("shop.orders")},
            write=replace_rows(),
            name="revenue",
        )(lambda orders: Rows(summed(orders).columns, ()))
    )
    for slice_ in span(declared)[:2]:
        runtime.run(declared, slice_.label)
    runtime.put_orders(*rows(7))
    found = statuses(runtime, declared)
    assert [found["01"][0], found["02"][0], found["03"][0]] == ["stale", "stale", "missing"]


def test_where_the_ledger_is_lost_nobody_remembers_and_the_run_will_look(runtime: RuntimeSetup, declared: Task) -> None:
    runtime.run(declared, "2026-06-03")
    runtime.ledger.forget("revenue", "2026-06-03")
    assert statuses(runtime, declared)["03"] == ("stale", "there is no record of what it was computed from")


RECREATED = "its input shop.orders was recreated, or replaced by an older copy, since version 2 of it was read"


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_an_input_that_was_dropped_and_made_again_is_another_one_at_whatever_version(
    runtime: RuntimeSetup, declared: Task, commits: int
) -> None:
    runtime.run(declared, "2026-06-03")
    runtime.target._tables.pop("shop.orders")
    for _ in range(commits):
        runtime.put_orders(*rows(2))
    assert statuses(runtime, declared)["03"] == ("stale", RECREATED)
    runtime.run(declared, "2026-06-03")
    assert statuses(runtime, declared)["03"] == ("published", "same code, same inputs")


def test_of_a_slice_that_an_earlier_version_pinned_without_an_id_the_version_is_compared(
    runtime: RuntimeSetup, declared: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        published = runtime.target.published
        patch.setattr(runtime.target, "published", lambda *asked: replace(published(*asked), id=None))
        runtime.run(declared, "2026-06-03")
    assert statuses(runtime, declared)["03"] == ("published", "same code, same inputs")
    runtime.target._tables.pop("shop.orders")
    runtime.put_orders(*rows(2))
    assert statuses(runtime, declared)["03"] == ("stale", RECREATED)


def test_what_the_logs_call_published_a_run_finds_published_too(runtime: RuntimeSetup, declared: Task) -> None:
    """In doubt stale, never the other way round: over many random changes of the input."""
    chance = random.Random(7)
    for _ in range(25):
        for slice_ in span(declared):
            if chance.random() < 0.5:
                run_task(runtime.context, declared, (slice_,))
        runtime.put_orders(*rows(*(n for n in range(8) if chance.random() < 0.2)))
        found = statuses(runtime, declared)
        for slice_ in span(declared):
            if found[slice_.label[-2:]][0] == "published":
                assert run_task(runtime.context, declared, (slice_,)).outcome is Outcome.ALREADY


@dataclass(frozen=True)
class PlannedEngine(PlainEngine):
    """Plain rows that also have a plan, as Spark's have: what stands in it, and how often it was asked for."""

    held: list[str | None] = field(default_factory=lambda: ["constants"])
    asked: list[int] = field(default_factory=list)

    def outside(self, frame: Any, cuts: Any, function: Any) -> tuple[Leaf, ...]:
        self.asked.append(1)
        return (Leaf(PLAN, "expressions and constants", self.held[0]),)


def planned(runtime: RuntimeSetup, declared: Task) -> PlannedEngine:
    engine = PlannedEngine()
    runtime.context = replace(runtime.context, engine=engine)
    for slice_ in span(declared)[:5]:
        runtime.run(declared, slice_.label)
    engine.asked.clear()
    return engine


def test_one_plan_shows_for_all_slices_that_nothing_beside_their_tables_changed(
    runtime: RuntimeSetup, declared: Task
) -> None:
    engine = planned(runtime, declared)
    assert [status for status, _ in statuses(runtime, declared).values()] == ["published"] * 5 + ["missing"] * 3
    assert len(engine.asked) == 1


def test_other_constants_in_the_plan_make_a_slice_stale_as_for_a_run(runtime: RuntimeSetup, declared: Task) -> None:
    engine = planned(runtime, declared)
    engine.held[0] = "other constants"
    why = "its code makes another plan than before, of values that it takes from elsewhere"
    assert statuses(runtime, declared)["03"] == ("stale", why)
    assert runtime.run(declared, "2026-06-03").why == why
    assert statuses(runtime, declared)["03"] == ("published", "same code, same inputs")


def test_a_task_that_asks_for_the_run_is_looked_at_slice_by_slice(runtime: RuntimeSetup) -> None:
    """Its code can distinguish slices: one plan shows nothing of the others."""
    runtime.put_orders(*rows())
    asking = runtime.declare(revenue_task(lambda orders, run: summed(orders)))
    engine = planned(runtime, asking)
    assert [status for status, _ in statuses(runtime, asking).values()] == ["published"] * 5 + ["missing"] * 3
    assert len(engine.asked) == 5


def test_what_nobody_can_compare_is_stale_as_for_a_run(runtime: RuntimeSetup, declared: Task) -> None:
    engine = planned(runtime, declared)
    engine.held[0] = None
    runtime.run(declared, "2026-06-03")
    why = "nothing shows that it is the same: its plan expressions and constants"
    assert statuses(runtime, declared)["03"] == ("stale", why)
    assert runtime.run(declared, "2026-06-03").why == why


def test_code_that_fails_now_makes_a_slice_stale_not_the_question(runtime: RuntimeSetup, declared: Task) -> None:
    planned(runtime, declared)

    def broken(orders: Rows) -> Rows:
        raise ValueError("no such setting")

    bad = runtime.declare(revenue_task(broken))
    status, why = statuses(runtime, bad)["03"]
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


def test_what_an_earlier_version_appended_stays_without_a_word_and_what_changed_since_is_reported(
    runtime: RuntimeSetup,
) -> None:
    """It compared less: that is no reason to say that inputs changed."""
    runtime.put_orders(*rows())
    declared = runtime.declare(
        task(
            "shop.revenue",
            scope=Daily("order_date", start="2026-01-01"),
            inputs={"orders": read("shop.orders", by="order_date")},
            write=append_once(),
            name="revenue",
        )(summed)
    )
    runtime.context = replace(runtime.context, engine=OlderEngine())
    runtime.run(declared, "2026-06-03")
    runtime.context = replace(runtime.context, engine=NewerEngine())
    again = runtime.run(declared, "2026-06-03")
    assert (again.outcome, again.notes) == (Outcome.ALREADY, ())
    runtime.run(declared, "2026-06-04")
    runtime.put_orders(*rows(3))
    changed = runtime.run(declared, "2026-06-04")
    assert (changed.outcome, changed.notes) == (
        Outcome.ALREADY,
        ("what was appended stays, although its inputs changed",),
    )


def test_of_other_code_and_other_inputs_both_are_reported(runtime: RuntimeSetup) -> None:
    runtime.put_orders(*rows())
    runtime.context = replace(runtime.context, engine=NewerEngine())
    appending = runtime.declare(replace(revenue_task(), write=append_once()))
    runtime.run(appending, "2026-06-03")
    runtime.code[0] = "v2"
    assert runtime.run(appending, "2026-06-03").notes == (
        "what was appended stays, although the code or its options changed",
    )
    runtime.put_orders(*rows(2))
    assert runtime.run(appending, "2026-06-03").notes == (
        "what was appended stays, although the code or its options changed, and its inputs changed",
    )


def test_a_backfill_reports_both_too(runtime: RuntimeSetup, declared: Task) -> None:
    planned(runtime, declared)
    runtime.put_orders(*rows(2))
    _, why = statuses(runtime, declared)["03"]
    runtime.code[0] = "v2"
    assert statuses(runtime, declared)["03"] == ("stale", f"the code or its options changed, and {why}")
    assert statuses(runtime, declared)["04"] == ("stale", "the code or its options changed")


EARLIER = "an earlier version of twice published it, and did not record what its code takes from elsewhere"


def test_what_an_earlier_version_published_is_stale_for_every_command_and_for_that_reason(
    runtime: RuntimeSetup, declared: Task
) -> None:
    runtime.context = replace(runtime.context, engine=OlderEngine())
    for slice_ in span(declared)[:2]:
        runtime.run(declared, slice_.label)
    runtime.context = replace(runtime.context, engine=NewerEngine())
    first, second = span(declared)[:2]
    assert statuses(runtime, declared)["01"] == ("stale", EARLIER)
    assert explain(runtime.context, declared, first).why == EARLIER
    assert runtime.run(declared, first.label).why == EARLIER
    assert statuses(runtime, declared)["01"] == ("published", "same code, same inputs")
    runtime.put_orders(*rows(1))
    assert statuses(runtime, declared)["02"] == ("stale", "its input shop.orders changed since version 2")
    assert explain(runtime.context, declared, second).why == "its inputs changed"


def test_a_query_that_an_earlier_version_published_is_computed_once_more(runtime: RuntimeSetup, declared: Task) -> None:
    """What its views and the functions of the catalog meant then, nobody recorded."""
    query = runtime.declare(replace(declared, sql="SELECT 1"))
    runtime.context = replace(runtime.context, engine=OlderEngine())
    runtime.run(query, "2026-06-01")
    runtime.context = replace(runtime.context, engine=NewerEngine())
    assert statuses(runtime, query)["01"] == ("stale", EARLIER)
    assert runtime.run(query, "2026-06-01").why == EARLIER
    assert statuses(runtime, query)["01"] == ("published", "same code, same inputs")


def test_a_slice_that_reads_only_files_is_compared_as_for_a_run(runtime: RuntimeSetup) -> None:
    held = {"amount": 1}
    declared = runtime.declare(
        task("shop.revenue", scope=Daily("order_date", start="2026-01-01"), write=replace_rows(), name="revenue")(
            lambda run: Rows(summed(Rows((), ())).columns, ((run.slice.start.date(), held["amount"]),))
        )
    )
    runtime.context = replace(runtime.context, engine=NewerEngine())
    runtime.run(declared, "2026-06-03")
    slice_ = span(declared)[2]
    found = statuses(runtime, declared)["03"]
    assert (
        found
        == ("published", explain(runtime.context, declared, slice_).why)
        == ("published", "same code, same inputs")
    )
    held["amount"] = 2
    found = statuses(runtime, declared)["03"]
    assert found == ("stale", explain(runtime.context, declared, slice_).why) == ("stale", "its inputs changed")


def test_a_function_of_other_values_is_distinguished_from_other_constants() -> None:
    table, plan = Leaf("delta", "t", "1", 1), Leaf(PLAN, "", "p")
    one, two = Leaf(FUNCTION, "f", "1"), Leaf(FUNCTION, "f", "2")
    assert what_changed((table, plan, one), (table, plan, one)) is None
    values = InputChange("a function that it calls computes with other values", of_the_code=True)
    assert what_changed((table, plan, two), (table, plan, one)) == values
    other_table = (Leaf("delta", "t", "2", 2), plan, two)
    assert what_changed(other_table, (table, plan, one)) == InputChange("its inputs changed")


def test_an_input_without_a_version_is_named_as_the_reason_whatever_plan_it_makes() -> None:
    """A query of PostgreSQL has the number of its snapshot in its plan: another one on each run."""
    rows = Leaf("postgres", "ops.repairs", None)
    now, before = (rows, Leaf(PLAN, "", "2")), (rows, Leaf(PLAN, "", "1"))
    assert what_changed(now, before) == InputChange("an input has no version to compare")
