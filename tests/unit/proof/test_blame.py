from __future__ import annotations

from twice.core.ports import ALL_ROWS, Suspicion
from twice.core.results.proof import Difference
from twice.proof.blame import blame

UUID = Suspicion("uuid", ("id",), "it draws other values on each run", "Use surrogate_key(…).")
LIMIT = Suspicion("limit", (ALL_ROWS,), "without an ORDER BY it keeps any rows", "Order first.")
NOW = Suspicion("current_timestamp", ("at",), "it is the time of the run", "Use the slice's date.")


def names(difference: Difference, *likely: Suspicion, drift: tuple[str, str] | None = None) -> list[str]:
    return [cause.name for cause in blame(difference, likely, drift)]


def test_what_reaches_the_very_column_that_differs_is_blamed_and_what_reaches_others_is_not() -> None:
    assert names(Difference(("at",), 3, 3), UUID, NOW) == ["current_timestamp"]


def test_what_decides_on_rows_is_blamed_for_whole_rows() -> None:
    assert names(Difference((), 3, 0), LIMIT) == ["limit"]


def test_a_key_that_differs_is_blamed_for_rows_that_are_there_twice() -> None:
    assert names(Difference((), 0, 3), UUID) == ["uuid"]


def test_a_value_that_python_made_is_shown_with_both_its_values() -> None:
    (cause,) = blame(Difference(("at",), 3, 3), [UUID], ("10:00", "10:01"))
    assert (cause.name, cause.columns) == ("python value", ("at",))
    assert cause.why == "the task's own Python gave 10:00 on one call and 10:01 on the next"


def test_where_the_plan_explains_nothing_the_code_is_blamed_not_an_innocent_function() -> None:
    assert names(Difference(("total",), 3, 3), UUID, NOW) == ["code"]
