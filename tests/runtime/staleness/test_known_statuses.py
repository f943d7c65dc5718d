"""The status of slices without an engine: what it tells is what the full way says, and the rest is left to that."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from tests.runtime.conftest import RuntimeSetup, revenue_task
from tests.runtime.run.test_quick_since import without_engine

from twice.core.ports import PLAN, Leaf
from twice.core.slice import Slice
from twice.core.task import Policy, Task
from twice.engine.plain import PlainEngine
from twice.runtime.run.explain import explain_all
from twice.runtime.run.quick import all_would_stay
from twice.runtime.staleness.known_statuses import known_statuses
from twice.runtime.staleness.slice_status import slice_statuses

DAYS = tuple(date(2026, 6, day) for day in (1, 2, 3))


class PlannedEngine(PlainEngine):
    """Its frames have plans, as Spark's have."""

    plan = "one"

    def outside(self, *_: object, **__: object) -> tuple[Leaf, ...]:
        return (Leaf(PLAN, "expressions and constants", self.plan),)


@pytest.fixture
def planned(runtime: RuntimeSetup) -> RuntimeSetup:
    runtime.context = replace(runtime.context, engine=PlannedEngine(), recipe=lambda _: "made")
    runtime.put_orders(*((n, day, 100) for n, day in enumerate(DAYS)))
    return runtime


def published(runtime: RuntimeSetup, policy: Policy | None = None) -> tuple[Task, list[Slice]]:
    """Of three days the first two."""
    declared = runtime.declare(revenue_task(policy=policy))
    for day in DAYS[:2]:
        runtime.run(declared, day.isoformat())
    return declared, [declared.scope.slice_of(day.isoformat()) for day in DAYS]  # type: ignore[union-attr]


def told(runtime: RuntimeSetup, declared: Task, slices: list[Slice]) -> dict[str, str]:
    """What is known without an engine; it is what the full way says."""
    known = known_statuses(without_engine(runtime), declared, slices)
    full = slice_statuses(runtime.context, declared, slices, None)
    for slice_, status in zip(slices, full, strict=True):
        assert known.get(slice_) in (None, status)
    return {slice_.label: status.status for slice_, status in known.items()}


def test_what_is_published_and_what_is_missing_is_known(planned: RuntimeSetup) -> None:
    assert told(planned, *published(planned)) == {
        "2026-06-01": "published",
        "2026-06-02": "published",
        "2026-06-03": "missing",
    }


def test_where_only_the_plan_tells_that_a_slice_is_right_it_is_left_out(planned: RuntimeSetup) -> None:
    declared, slices = published(planned)
    planned.context = replace(planned.context, recipe=lambda _: "other")
    assert told(planned, declared, slices) == {"2026-06-03": "missing"}
    planned.context = replace(planned.context, recipe=lambda _: None)
    assert told(planned, declared, slices) == {"2026-06-03": "missing"}


def test_other_code_needs_no_plan(planned: RuntimeSetup) -> None:
    declared, slices = published(planned)
    planned.code[:] = ["v2"]
    planned.context = replace(planned.context, recipe=lambda _: None)
    assert set(told(planned, declared, slices).values()) == {"stale", "missing"}


def test_what_stays_by_policy_needs_no_plan(planned: RuntimeSetup) -> None:
    declared, slices = published(planned, Policy(rerun="never"))
    planned.context = replace(planned.context, recipe=lambda _: None)
    assert told(planned, declared, slices)["2026-06-01"] == "published"


def test_known_statuses_are_not_asked_for_again(planned: RuntimeSetup) -> None:
    declared, slices = published(planned)
    known = known_statuses(without_engine(planned), declared, slices)
    found = slice_statuses(without_engine(planned), declared, slices, None, known)
    assert found == slice_statuses(planned.context, declared, slices, None)


def test_records_whose_owner_is_not_known_are_left_to_the_full_way(
    planned: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the table which of them are its own, before anything else."""
    declared, slices = published(planned)
    monkeypatch.setattr(type(planned.ledger.unassigned), "any", lambda *_: True)
    assert told(planned, declared, slices) == {}


def test_a_plan_of_a_date_is_what_the_full_way_says_where_all_of_it_stays(planned: RuntimeSetup) -> None:
    published(planned)
    full = explain_all(planned.context, "2026-06-01", lambda _: None)
    assert all_would_stay(without_engine(planned), "2026-06-01") == full
    assert all_would_stay(without_engine(planned), "2026-06-03") is None
