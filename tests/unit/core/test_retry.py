"""When to try again, and how long to wait: pure, so every case is a line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice import Policy, Retry, hours
from twice.core.failure.transience import Judgement, Nature
from twice.core.retry import Failure, ceiling, gives_up, pause_after
from twice.errors import DeclarationError

PASSING, LASTING = Judgement(Nature.TRANSIENT, "cut"), Judgement(Nature.PERMANENT, "wrong")
OWN = Judgement(Nature.TRANSIENT, "an executor is lost each time", person=True)
SECOND = timedelta(seconds=1)


def failure(number: int = 1, seconds: float = 0, judgement: Judgement = PASSING) -> Failure:
    return Failure(number, timedelta(seconds=seconds), judgement)


def test_the_ceiling_doubles_up_to_the_longest() -> None:
    retry = Retry(attempts=9, first=SECOND, longest=timedelta(seconds=10))
    assert [ceiling(retry, n).total_seconds() for n in (1, 2, 3, 4, 5, 2000)] == [1, 2, 4, 8, 10, 10]


@given(number=st.integers(1, 8), draw=st.floats(0, 1, exclude_max=True))
def test_a_wait_is_anywhere_between_half_the_ceiling_and_the_whole(number: int, draw: float) -> None:
    retry = Retry(attempts=9)
    pause = pause_after(retry, failure(number), draw)
    assert pause is not None
    assert ceiling(retry, number) / 2 <= pause <= ceiling(retry, number)
    assert abs(pause.total_seconds() - ceiling(retry, number).total_seconds() * (1 + draw) / 2) < 1e-5


def test_by_default_an_outage_of_three_minutes_is_outlasted_however_the_waits_are_drawn() -> None:
    waited, number = timedelta(0), 1
    while (pause := pause_after(Retry(), failure(number, waited.total_seconds()), draw=0)) is not None:
        waited, number = waited + pause, number + 1
    assert waited >= timedelta(minutes=3)


def test_a_permanent_error_is_never_tried_again_and_needs_no_brake() -> None:
    lasting = failure(judgement=LASTING)
    assert pause_after(Retry(), lasting, 0.5) is None
    assert not gives_up(Retry(), lasting, None)


def test_after_the_last_attempt_it_gives_up() -> None:
    retry = Retry(attempts=3)
    assert pause_after(retry, failure(2), 0.5) is not None
    assert pause_after(retry, failure(3), 0.5) is None
    assert gives_up(retry, failure(3, judgement=OWN), None)


def test_what_is_only_away_is_left_to_the_next_run_and_not_to_a_person() -> None:
    assert not gives_up(Retry(attempts=3), failure(3), None)


def test_no_attempt_begins_after_the_total_time() -> None:
    retry = Retry(attempts=9, first=SECOND, total=timedelta(seconds=10))
    assert pause_after(retry, failure(1, seconds=9.4), 0) == timedelta(seconds=0.5)
    assert pause_after(retry, failure(1, seconds=9.6), 0) is None
    assert gives_up(retry, failure(1, seconds=9.6, judgement=OWN), None)


def test_who_leaves_retries_to_the_scheduler_is_never_quarantined() -> None:
    assert not gives_up(Retry(attempts=1), failure(1, judgement=OWN), None)


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": "3"},
        {"total": 60},
        {"first": timedelta(seconds=-1)},
        {"transient": "40001"},
        {"transient": ConnectionError},
        {"transient": [""]},
        {"permanent": [200]},
        {"permanent": [True]},
        {"permanent": [int]},
        {"transient": [503], "permanent": [503]},
    ],
    ids=str,
)
def test_a_retry_that_makes_no_sense_is_refused_where_it_is_declared(options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="Retry"):
        Retry(**options)


def test_it_is_declared_in_the_policy_of_a_task() -> None:
    retry = Retry(attempts=5, total=hours(1), transient=[KeyError, "40001", 409], permanent=["57014"])
    assert Policy(retry=retry).retry.transient == (KeyError, "40001", 409)
    assert Policy().retry == Retry(attempts=10)
