"""Scenarios that are played only when they are asked for: they need more time, or more than one slice."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.time_scope import TimeScope
from twice.errors import TwiceError
from twice.proof.disturb import hidden
from twice.proof.play import NotApplicable, Observation
from twice.proof.tasks.scratch import Disturbance, ScratchCopy
from twice.proof.tasks.session import Clean, ProofSession
from twice.runtime.run.run_many import retry_slices
from twice.runtime.run.run_task import run_task


def thrice(proof_session: ProofSession, clean: Clean) -> Observation:
    """Run, and computed again on purpose two times more."""
    _restatable(proof_session)
    with proof_session.copy() as copy:
        for kind in ("run", "restate", "restate"):
            copy.run(proof_session.slices, kind)
        return Observation("run, then computed again two times", proof_session.rows_differ(clean, copy))


def partial(proof_session: ProofSession, clean: Clean) -> Observation:
    """A job of Spark's dies in the middle of its rows; files of the rows before are staged, or half-written."""
    proof_session.reached.needed("task")
    dying = [True]

    def dies(frame: DataFrame) -> DataFrame:
        if not dying[0]:
            return frame
        half = frame.count() // 2
        alive = sf.assert_true(sf.monotonically_increasing_id() < sf.lit(half), "the proof ends this job here")
        return frame.coalesce(1).where(alive.isNull())

    with proof_session.copy(Disturbance(inputs=dies)) as copy:
        try:
            copy.run(proof_session.slices)
        except TwiceError as error:
            reason = f"died after half of the rows ({error.code}), then run again"
        else:
            raise NotApplicable("no input has rows, so there is no middle to die in")
        dying[0] = False
        copy.clock.pass_an_hour()
        retry_slices(copy.context, copy.task, proof_session.slices, None)
        return Observation(reason, proof_session.difference(clean, copy))


def out_of_order(proof_session: ProofSession, clean: Clean) -> Observation:  # noqa: ARG001 - one slice's clean run shows nothing about two
    """This slice and the one before it, in both orders."""
    before, this = _two(proof_session)
    return _against(
        proof_session,
        lambda copy: _one_by_one(copy, (before, this)),
        lambda copy: _one_by_one(copy, (this, before)),
        f"{before.label} and {this.label} in both orders",
    )


def batch(proof_session: ProofSession, clean: Clean) -> Observation:  # noqa: ARG001 - see above
    """This slice and the one before it in one job and one commit, against each by itself."""
    before, this = _two(proof_session)
    scope = proof_session.task.scope
    if not isinstance(scope, TimeScope) or not scope.batch:
        raise NotApplicable("the scope does not say batch=True: its slices are always computed one by one")
    return _against(
        proof_session,
        lambda copy: _one_by_one(copy, (before, this)),
        lambda copy: run_task(copy.context, copy.task, (before, this)),
        f"{before.label} and {this.label} in one commit",
    )


def late_rows(proof_session: ProofSession, clean: Clean) -> Observation:
    """Published without some of its rows, then computed again with all of them."""
    _restatable(proof_session)
    proof_session.reached.needed("task")
    waiting = [True]

    def hide(frame: DataFrame) -> DataFrame:
        return hidden(frame) if waiting[0] else frame

    with proof_session.copy(Disturbance(inputs=hide)) as copy:
        copy.run(proof_session.slices)
        waiting[0] = False
        copy.run(proof_session.slices, "restate")
        return Observation(
            f"a third of the rows came late{proof_session.reached.but_for}", proof_session.rows_differ(clean, copy)
        )


def _restatable(proof_session: ProofSession) -> None:
    if isinstance(proof_session.task.scope, Since):
        raise NotApplicable("an incremental task is not computed again: it continues from its mark")
    if not proof_session.task.write.restatable:
        raise NotApplicable(f"{proof_session.task.write.name}() is never computed again: what is published stays")


def _two(proof_session: ProofSession) -> tuple[Slice, Slice]:
    scope, this = proof_session.task.scope, proof_session.slices[-1]
    if not isinstance(scope, TimeScope):
        raise NotApplicable("the task's work is not cut by time")
    earlier = tuple(scope.earlier(this, 1))
    if not earlier:
        raise NotApplicable(f"{this.label} is the first slice of its scope")
    return earlier[0], this


def _one_by_one(copy: ScratchCopy, slices: tuple[Slice, ...]) -> None:
    for slice_ in slices:
        run_task(copy.context, copy.task, (slice_,))


def _against(
    proof_session: ProofSession,
    one: Callable[[ScratchCopy], object],
    other: Callable[[ScratchCopy], object],
    reason: str,
) -> Observation:
    with proof_session.copy() as first, proof_session.copy() as second:
        one(first)
        other(second)
        return Observation(reason, proof_session.copies_differ(first, second))
