"""What a recipe stands for, and what it does not: only a query plan says whether that is what it was."""

from __future__ import annotations

import pytest

from twice import Daily
from twice.core.ledger.record import RECIPE, InputRecord
from twice.core.lineage import NOT_WATCHED
from twice.core.ports import PLAN, NeedsEngine
from twice.core.table.token import Intention
from twice.runtime.staleness.plans import SameRecipe

SCOPE = Daily("order_date", start="2026-01-01")
DAY = SCOPE.slice_of("2026-06-09")
PUBLISHED = Intention("code", "inputs")
MADE = InputRecord(DAY.label, RECIPE, "function", "made", None)
PLANNED = InputRecord(DAY.label, PLAN, "expressions and constants", "plan", None)
ZONES = InputRecord(DAY.label, "server", "public.zones at snapshot 1-1", NOT_WATCHED, None)


def reason(plans: SameRecipe, *held: InputRecord) -> str | None:
    return plans.reason(DAY, held, PUBLISHED, frozenset())


def test_the_same_recipe_is_the_same_plan_and_another_one_needs_it() -> None:
    assert reason(SameRecipe("made"), MADE, PLANNED) is None
    for held in ((PLANNED,), (MADE,), (InputRecord(DAY.label, RECIPE, "function", "other", None), PLANNED)):
        with pytest.raises(NeedsEngine):
            reason(SameRecipe("made"), *held)


def test_a_table_of_a_server_counts_for_nothing_only_while_it_is_not_watched() -> None:
    assert reason(SameRecipe("made", frozenset({"server:public.zones"})), MADE, PLANNED, ZONES) is None
    with pytest.raises(NeedsEngine, match="server"):
        reason(SameRecipe("made"), MADE, PLANNED, ZONES)
