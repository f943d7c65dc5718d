"""Scenarios that are played only when they are asked for: they need more time, or more than one slice."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.proof import Difference
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.time_scope import TimeScope
from twice.errors import TwiceError
from twice.proof.disturb import hidden
from twice.proof.tasks.scratch import Disturbance, NotApplicable, World
from twice.proof.tasks.seen import Seen
from twice.proof.tasks.session import Bench, Clean
from twice.runtime.run.run_many import retry_slices
from twice.runtime.run.run_task import run_task


def thrice(bench: Bench, clean: Clean) -> Seen:
    """Run, and computed again on purpose two times more."""
    _restatable(bench)
    with bench.world() as world:
        for kind in ("run", "restate", "restate"):
            world.run(bench.slices, kind)
        return Seen("run, then computed again two times", bench.rows_differ(clean, world))


def partial(bench: Bench, clean: Clean) -> Seen:
    """A job of Spark's dies in the middle of its rows; files of the rows before are staged, or half-written."""
    dying = [True]

    def dies(frame: DataFrame) -> DataFrame:
        if not dying[0]:
            return frame
        half = frame.count() // 2
        alive = sf.assert_true(sf.monotonically_increasing_id() < sf.lit(half), "the proof ends this job here")
        return frame.coalesce(1).where(alive.isNull())

    with bench.world(Disturbance(inputs=dies)) as world:
        try:
            world.run(bench.slices)
        except TwiceError as error:
            told = f"died after half of the rows ({error.code}), then run again"
        else:
            raise NotApplicable("no input has rows, so there is no middle to die in")
        dying[0] = False
        world.clock.pass_an_hour()
        retry_slices(world.shop, world.task, bench.slices, None)
        return Seen(told, bench.difference(clean, world))


def out_of_order(bench: Bench, clean: Clean) -> Seen:  # noqa: ARG001 - one slice's clean run says nothing of two
    """This slice and the one before it, in both orders."""
    before, this = _two(bench)
    return _against(
        bench,
        lambda world: _one_by_one(world, (before, this)),
        lambda world: _one_by_one(world, (this, before)),
        f"{before.label} and {this.label} in both orders",
    )


def batch(bench: Bench, clean: Clean) -> Seen:  # noqa: ARG001 - see above
    """This slice and the one before it in one job and one commit, against each by itself."""
    before, this = _two(bench)
    scope = bench.task.scope
    if not isinstance(scope, TimeScope) or not scope.batch:
        raise NotApplicable("the scope does not say batch=True: its slices are always computed one by one")
    return _against(
        bench,
        lambda world: _one_by_one(world, (before, this)),
        lambda world: run_task(world.shop, world.task, (before, this)),
        f"{before.label} and {this.label} in one commit",
    )


def late_rows(bench: Bench, clean: Clean) -> Seen:
    """Published without some of its rows, then computed again with all of them."""
    _restatable(bench)
    waiting = [True]

    def hide(frame: DataFrame) -> DataFrame:
        return hidden(frame) if waiting[0] else frame

    with bench.world(Disturbance(inputs=hide)) as world:
        world.run(bench.slices)
        waiting[0] = False
        world.run(bench.slices, "restate")
        return Seen("a third of the rows came late", bench.rows_differ(clean, world))


def _restatable(bench: Bench) -> None:
    if isinstance(bench.task.scope, Since):
        raise NotApplicable("an incremental task is not computed again: it goes on from its mark")
    if not bench.task.write.restatable:
        raise NotApplicable(f"{bench.task.write.name}() is never computed again: what is published stays")


def _two(bench: Bench) -> tuple[Slice, Slice]:
    scope, this = bench.task.scope, bench.slices[-1]
    if not isinstance(scope, TimeScope):
        raise NotApplicable("the task's work is not cut by time")
    earlier = tuple(scope.earlier(this, 1))
    if not earlier:
        raise NotApplicable(f"{this.label} is the first slice of its scope")
    return earlier[0], this


def _one_by_one(world: World, slices: tuple[Slice, ...]) -> None:
    for slice_ in slices:
        run_task(world.shop, world.task, (slice_,))


def _against(bench: Bench, one: Callable[[World], object], other: Callable[[World], object], told: str) -> Seen:
    with bench.world() as first, bench.world() as second:
        one(first)
        other(second)
        found: Difference | None = bench.worlds_differ(first, second)
        return Seen(told, found)
