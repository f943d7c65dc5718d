"""An incremental task with nothing to read is told so without reading its source; never where there is something."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup
from tests.runtime.run.test_since import CHANGES, COPY, EVERY, Source, at, copy_task, run, source

from twice import insert_new, merge
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import NeedsEngine
from twice.core.results.run import Outcome, RunRequest, RunResult
from twice.core.since import Since
from twice.core.task import Strategy, TableName, Task
from twice.errors import RunError, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.run.explain import explain
from twice.runtime.run.quick import NO_ENGINE, already_published, would_stay
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.targets.memory.target import MemoryTarget

__all__ = ["source"]
SINCE = Since("seen", initial=0).only
NEWEST = "2026-06-09T00:02:00Z"


class LogOnly:
    """The part of a target that a look needs."""

    def __init__(self, target: MemoryTarget) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name not in ("published", "tokens", "provenance", "foreign", "touched"):
            raise NeedsEngine(name)
        return getattr(self._target, name)


def without_engine(runtime: RuntimeSetup) -> RunContext:
    def reader(table: TableName, session: Any) -> Any:
        return LogOnly(runtime.context.target_of(table, session))  # type: ignore[arg-type]

    return replace(runtime.context, engine=NO_ENGINE, target_of=reader)


def quickly(runtime: RuntimeSetup, declared: Task) -> RunResult | None:
    found = already_published(without_engine(runtime), declared, (SINCE,), RunRequest())
    return None if found is None else found[0]


def settled(runtime: RuntimeSetup, write: Strategy, **options: Any) -> Task:
    """A task that has read everything, and was told so once."""
    declared = copy_task(runtime, write, **options)
    while run(runtime, declared).outcome is not Outcome.NOTHING_NEW:
        pass
    return declared


def crash(point: Point) -> Callable[[RuntimeSetup, Source, Task], object]:
    def crashed(runtime: RuntimeSetup, _: Source, declared: Task) -> None:
        with armed(crash_at(point)), suppress(Crash):
            run(runtime, declared)
        runtime.clock.ahead += timedelta(minutes=10)  # its lease ran out

    return crashed


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
def test_what_a_run_has_found_is_told_again_without_reading(
    runtime: RuntimeSetup, source: Source, write: Strategy
) -> None:
    declared = settled(runtime, write)
    in_full = run(runtime, declared)
    result = quickly(runtime, declared)
    assert result is not None
    assert replace(result, attempt=in_full.attempt, seconds=in_full.seconds) == in_full
    first, second = runtime.ledger.attempts("copy")[:2]
    assert (first.state, first.why, first.version, first.slices, first.inputs) == (
        second.state,
        second.why,
        second.version,
        second.slices,
        second.inputs,
    )
    assert would_stay(without_engine(runtime), declared, SINCE) == (explain(runtime.context, declared, SINCE),)


def test_a_publish_alone_does_not_show_it(runtime: RuntimeSetup, source: Source) -> None:
    """An earlier attempt had frozen its bound: there are rows behind it."""
    declared = copy_task(runtime, merge("id", newest_by="seen"))
    crash(Point.AFTER_LOOK)(runtime, source, declared)
    source.add((3, at(3), 30))
    found = run(runtime, declared)
    assert (found.mark, found.more) == (NEWEST, True)
    assert quickly(runtime, declared) is None


def test_a_row_that_came_since_is_read(runtime: RuntimeSetup, source: Source) -> None:
    declared = settled(runtime, insert_new("id"))
    source.add((3, at(3), 30))
    assert quickly(runtime, declared) is None


def test_rows_without_a_cursor_are_noted_each_time(runtime: RuntimeSetup, source: Source) -> None:
    source.add((3, None, 30))
    declared = settled(runtime, insert_new("id"))
    assert quickly(runtime, declared) is None
    assert run(runtime, declared).notes


def test_after_a_mark_was_set_back_what_was_found_after_the_other_does_not_count(
    runtime: RuntimeSetup, source: Source
) -> None:
    declared = settled(runtime, merge("id", newest_by="seen"))
    reset_mark(runtime.context, declared, Reset("2026-06-09T00:01:00Z", "again", "me"))
    assert quickly(runtime, declared) is None


def test_a_run_that_failed_is_tried_again(runtime: RuntimeSetup, source: Source) -> None:
    def fail(passed: object) -> None:
        if passed is Point.AFTER_CLAIM:
            raise ValueError("not now")

    declared = settled(runtime, insert_new("id"))
    with armed(fail), pytest.raises(RunError):
        run(runtime, declared)
    assert quickly(runtime, declared) is None


def test_another_lag_leads_to_the_full_way(runtime: RuntimeSetup, source: Source) -> None:
    declared = settled(runtime, insert_new("id"), lag=timedelta(minutes=1))
    assert quickly(runtime, declared) is not None
    assert quickly(runtime, copy_task(runtime, insert_new("id"))) is None


def drop_null(source: Source) -> None:
    source.rows = tuple(row for row in source.rows if row[1] is not None)
    source.add()


def reset_to(minute: int) -> Callable[[RuntimeSetup, Source, Task], object]:
    def set_back(runtime: RuntimeSetup, _: Source, declared: Task) -> None:
        reset_mark(runtime.context, declared, Reset(f"2026-06-09T00:{minute:02}:00Z", "again", "me"))

    return set_back


EVENTS: dict[str, Callable[[RuntimeSetup, Source, Task], object]] = {
    "a newer row": lambda _, source, __: source.add((len(source.rows) + 1, at(2 + len(source.rows) % 50), 1)),
    "a late row": lambda _, source, __: source.add((len(source.rows) + 1, at(1), 1)),
    "a row without a cursor": lambda _, source, __: source.add((len(source.rows) + 1, None, 1)),
    "rows without a cursor go": lambda _, source, __: drop_null(source),
    "the same rows again": lambda _, source, __: source.add(),
    "a run": lambda runtime, _, declared: run(runtime, declared),
    "the mark is set back": reset_to(1),
    "it dies with its bound frozen": crash(Point.AFTER_LOOK),
    "it dies with rows staged": crash(Point.AFTER_STAGE),
    "it dies after its commit": crash(Point.AFTER_COMMIT),
    "the result is written by others": lambda runtime, *_: runtime.put(COPY, runtime.target.read(COPY)),
}


RUNS = ("a run",) * len(EVENTS)


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.name)
@pytest.mark.parametrize("seed", range(3))
def test_over_a_random_history_nothing_new_is_what_a_full_look_says(
    runtime: RuntimeSetup, source: Source, write: Strategy, seed: int
) -> None:
    declared, draw, told = settled(runtime, write), random.Random(seed), 0
    done: list[str] = []
    for _ in range(60):
        done.append(draw.choice((*RUNS, *sorted(EVENTS))))
        with suppress(TwiceError):
            EVENTS[done[-1]](runtime, source, declared)
        short, full = would_stay(without_engine(runtime), declared, SINCE), explain(runtime.context, declared, SINCE)
        assert short in (None, (full,)), done
        told += short is not None
    assert told > 5, "it must answer often, not never"


def test_the_source_is_named_in_the_ledger(runtime: RuntimeSetup, source: Source) -> None:
    settled(runtime, insert_new("id"))
    (record,) = runtime.ledger.attempts("copy")[0].inputs
    assert (record.kind, record.name, record.version) == (
        "nothing after",
        str(CHANGES),
        runtime.target.published(CHANGES, ()).version,
    )
