"""A grain that nobody has written a rule for is refused, never cut like one that is known: its rows would be in slices
that are not theirs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from twice.core.scope import Hourly
from twice.core.time_scope import SliceColumn, cut_word
from twice.engine.frames.frames import derived
from twice.engine.frames.slices import value_of
from twice.targets.grain import check_grain

WEEK: Any = "week"
WEEKLY: SliceColumn = replace(Hourly("at", start="2026-06-08T00").held_in, grain=WEEK, derived=True)
SOURCE: Any = "a column"
NOON = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)

refused = pytest.raises(AssertionError, match="'week' is not handled here")


def test_spark_derives_no_slice_column_for_it() -> None:
    with refused:
        derived(WEEKLY, SOURCE)


def test_rows_get_no_value_for_it() -> None:
    with refused:
        value_of(WEEKLY, NOON)


def test_it_has_no_word_under_which_a_table_would_remember_it() -> None:
    with refused:
        cut_word(WEEKLY)


def test_a_table_does_not_take_it_for_one_that_its_partitions_are_made_for() -> None:
    with refused:
        check_grain("shop.clicks", "hour", replace(WEEKLY, derived=False))
