"""A renamed task in the ledger: who only looks moves nothing, and the way back loses nothing."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.outbox import EffectState, PreparedEffect
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts
from twice.project import inspect, status
from twice.wiring.open_project import OpenProject, open_project

PIPELINE = """
from twice import Daily, replace, task

@task("shop.revenue", scope=Daily("day", start="2026-06-01"), inputs={{}}, write=replace(), formerly={formerly})
def {name}(run): ...
"""
DAY = "2026-06-09"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    # Python takes bytecode for that of a file of the same size and second, and these names are equally long.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text('project = "p"\n')

    def declare(name: str, *formerly: str, toml: str = 'project = "p"\n') -> Any:
        (tmp_path / "pipelines" / "tasks.py").write_text(PIPELINE.format(name=name, formerly=formerly))
        (tmp_path / "twice.toml").write_text(toml)
        return open_project(tmp_path)

    return declare


def publish(opened: OpenProject, task: str, attempt: str, label: str = DAY) -> Claim:
    claim = opened.ledger.claim(ClaimRequest(task, [label], attempt, "run", "h"), timedelta(minutes=1))
    assert isinstance(claim, Claim)
    held = opened.ledger.run(task, label)
    generation = held.generation if held else 0
    opened.ledger.fix(claim, {label: generation})
    opened.ledger.publish(attempt, Facts(), generations={label: generation + 1})
    return claim


def known(opened: OpenProject, task: str) -> tuple[list[tuple[str, str, int]], list[tuple[str, str]]]:
    runs = [(run.task, run.label, run.generation) for run in status.status(opened, None, None).runs]
    return runs, [(each.task, each.id) for each in inspect.history(opened, task, None, 20)]


def keys(opened: OpenProject) -> set[str]:
    url = opened.settings.ledger_url.removeprefix("sqlite:///")
    with sqlite3.connect(url) as connection:
        found = connection.execute("SELECT task FROM twice_attempts UNION SELECT task FROM twice_runs")
        return {key.partition("#")[0] for (key,) in found}


def test_looking_at_a_rename_shows_the_records_as_the_new_names_and_moves_none(checkout: Callable[..., Any]) -> None:
    with checkout("revenue_daily") as opened:
        publish(opened, "revenue_daily", "a")
    with checkout("daily_revenue", "revenue_daily") as opened:
        assert known(opened, "daily_revenue") == ([("daily_revenue", DAY, 1)], [("daily_revenue", "a")])
        assert opened.ledger.open_attempts() == ()
    with checkout("revenue_daily") as opened:
        assert known(opened, "revenue_daily") == ([("revenue_daily", DAY, 1)], [("revenue_daily", "a")])


def test_what_ran_under_the_new_name_is_known_after_the_way_back(checkout: Callable[..., Any]) -> None:
    with checkout("revenue_daily") as opened:
        publish(opened, "revenue_daily", "a")
    with checkout("daily_revenue", "revenue_daily") as opened:
        assert publish(opened, "daily_revenue", "b").task == "daily_revenue"
        opened.ledger.gather("daily_revenue")
        assert known(opened, "daily_revenue")[0] == [("daily_revenue", DAY, 2)]
    for names in (("revenue_daily",), ("revenue_daily", "revenue_daily", "daily_revenue")):
        with checkout(*names) as opened:
            both = [("revenue_daily", "b"), ("revenue_daily", "a")]
            assert known(opened, "revenue_daily") == ([("revenue_daily", DAY, 2)], both)


def test_formerly_the_wrong_way_round_hides_no_record(checkout: Callable[..., Any]) -> None:
    with checkout("revenue_daily") as opened:
        publish(opened, "revenue_daily", "a")
    with checkout("revenue_daily", "daily_revenue") as opened:
        assert known(opened, "revenue_daily") == ([("revenue_daily", DAY, 1)], [("revenue_daily", "a")])
    with checkout("revenue_daily") as opened:
        assert known(opened, "revenue_daily") == ([("revenue_daily", DAY, 1)], [("revenue_daily", "a")])


def test_records_that_an_earlier_version_moved_are_seen_and_go_back_to_the_first_name(
    checkout: Callable[..., Any],
) -> None:
    with checkout("revenue_daily") as opened:
        publish(opened, "revenue_daily", "a")
    with checkout("daily_revenue") as opened:  # as it was: opening the ledger moved them
        opened.ledger.rename("revenue_daily", "daily_revenue")
    with checkout("daily_revenue", "revenue_daily") as opened:
        shown = ([("daily_revenue", DAY, 1)], [("daily_revenue", "a")])
        assert known(opened, "daily_revenue") == shown
        assert keys(opened) == {"daily_revenue"}
        claim = opened.ledger.claim(
            ClaimRequest("daily_revenue", ["2026-06-10"], "b", "run", "h"), timedelta(minutes=1)
        )
        opened.ledger.gather("daily_revenue")  # a run's look
        assert keys(opened) == {"revenue_daily"}
        assert known(opened, "daily_revenue")[1] == [("daily_revenue", "b"), ("daily_revenue", "a")]
        assert opened.ledger.renew(claim, timedelta(minutes=1))
        opened.ledger.close_attempt("b", AttemptState.UNCHANGED)
        opened.ledger.gather("daily_revenue")
    with checkout("revenue_daily") as opened:
        assert known(opened, "revenue_daily")[1] == [("revenue_daily", "b"), ("revenue_daily", "a")]


def test_a_look_gathers_what_two_names_have(checkout: Callable[..., Any]) -> None:
    with checkout("revenue_daily") as opened:
        publish(opened, "revenue_daily", "a")
        opened.ledger.record_found("daily_revenue", [FoundPublish("2026-06-01", 1)])  # of no table that is declared
    with checkout("daily_revenue") as opened:
        publish(opened, "daily_revenue", "b", "2026-06-10")
    with checkout("daily_revenue", "revenue_daily") as opened:
        assert known(opened, "daily_revenue")[0] == [("daily_revenue", DAY, 1)]
        opened.ledger.gather("daily_revenue")
        found = [("daily_revenue", DAY, 1), ("daily_revenue", "2026-06-10", 1)]
        assert known(opened, "daily_revenue")[0] == found


def test_effects_of_the_first_name_are_the_renamed_tasks(checkout: Callable[..., Any]) -> None:
    with checkout("revenue_daily") as opened:
        claim = opened.ledger.claim(ClaimRequest("revenue_daily", [DAY], "a", "run", "h"), timedelta(minutes=1))
        assert isinstance(claim, Claim)
        unknown = PreparedEffect("k", DAY, "announce", "call", "1", "never", 1, None, True, timedelta(days=1))
        opened.ledger.outbox.remember_unknown("revenue_daily", [unknown])
    with checkout("daily_revenue", "revenue_daily") as opened:
        (effect,) = opened.ledger.outbox.listed((), "daily_revenue", 10)
        assert (effect.task, effect.state) == ("daily_revenue", EffectState.UNKNOWN)
        assert opened.ledger.outbox.counts("daily_revenue") == {EffectState.UNKNOWN: 1}
        assert [each.task for each in opened.ledger.open_attempts()] == ["daily_revenue"]


def test_an_environment_that_is_given_a_name_keeps_a_renamed_tasks_records(checkout: Callable[..., Any]) -> None:
    with checkout("revenue_daily") as opened:
        publish(opened, "revenue_daily", "a")
    named = 'project = "p"\nenvironment = "prod"\n'
    with checkout("daily_revenue", "revenue_daily", toml=named) as opened:
        assert known(opened, "daily_revenue") == ([("daily_revenue", DAY, 1)], [("daily_revenue", "a")])
    with checkout("revenue_daily", toml=named) as opened:
        assert known(opened, "revenue_daily") == ([("revenue_daily", DAY, 1)], [("revenue_daily", "a")])


@pytest.fixture
def both(checkout: Callable[..., Any], tmp_path: Path) -> Callable[[], Any]:
    """`orders` and `orders_v2`, each with a table of its own; a `checkout` after it has the second table alone."""
    other = tmp_path / "pipelines" / "other.py"

    def declare() -> Any:
        opened = checkout("orders_v2")
        other.write_text(PIPELINE.format(name="orders", formerly=()).replace("shop.revenue", "shop.orders"))
        return closing_first(opened, other)

    return declare


@contextmanager
def closing_first(opened: Any, other: Path) -> Iterator[OpenProject]:
    with opened as project:
        yield project
    other.unlink()


def attempts_of(opened: OpenProject, task: str) -> list[str]:
    return [each.id for each in inspect.history(opened, task, None, 20)]


def test_records_of_another_table_under_a_later_name_stay_with_the_task_that_had_it(
    checkout: Callable[..., Any], both: Callable[[], Any]
) -> None:
    """A branch drops `orders` and calls `orders_v2` so, in the table it has; then somebody goes back."""
    with both() as opened:
        publish(opened, "orders", "a")
        publish(opened, "orders_v2", "b")
    with checkout("orders", "orders_v2") as opened:
        publish(opened, "orders", "c")
        opened.ledger.gather("orders")
        assert attempts_of(opened, "orders") == ["c", "b"]
    with both() as opened:
        assert attempts_of(opened, "orders") == ["a"]
        assert attempts_of(opened, "orders_v2") == ["c", "b"]


def test_what_ran_before_formerly_was_written_is_gathered_from_its_own_table_alone(
    checkout: Callable[..., Any], both: Callable[[], Any]
) -> None:
    with both() as opened:
        publish(opened, "orders", "a")
    with checkout("orders") as opened:
        publish(opened, "orders", "b")
    with checkout("orders", "orders_v2") as opened:
        opened.ledger.gather("orders")
        assert attempts_of(opened, "orders") == ["b"]
    with both() as opened:
        assert attempts_of(opened, "orders") == ["a"]
        assert attempts_of(opened, "orders_v2") == ["b"]
