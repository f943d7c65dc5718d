"""The scenarios: each disturbs a scratch copy in one way and compares: whether its table is that of one clean run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twice.core.failure.failpoints import Action, Crash, Point, SendPoint, armed, crash_at
from twice.core.results.proof import Scenario
from twice.core.since import Since
from twice.errors import TwiceError
from twice.proof.disturb import ordered, settings, spread
from twice.proof.play import NotApplicable, Observation
from twice.proof.tasks.child_process import kill, shifted
from twice.proof.tasks.optional_scenarios import batch, late_rows, out_of_order, partial, thrice
from twice.proof.tasks.scratch import Disturbance, ScratchCopy
from twice.proof.tasks.session import Clean, ProofSession, effects_differ
from twice.proof.tasks.shifted_clock import later

Play = Callable[[ProofSession, Clean], Observation]


def twice(proof_session: ProofSession, clean: Clean) -> Observation:
    """In the clean run's own scratch copy: run it again, then compute it again on purpose. The effects of the second
    run are compared, too; a restated slice may send them again if they are declared so."""
    copy = clean.copy
    again = copy.run(proof_session.slices)[-1]
    sent = effects_differ(clean.effects, copy)
    if sent is not None:
        return Observation("run again", sent)
    reason = f"the second run: {again.outcome.value}"
    if copy.task.write.restatable and not isinstance(copy.task.scope, Since):
        for slice_ in proof_session.slices:
            copy.run((slice_,), "restate")
        reason += "; computed again on purpose"
    return Observation(reason, proof_session.rows_differ(clean, copy))


_BEFORE_LANDING = tuple(Point)[: tuple(Point).index(Point.AFTER_COMMIT)]
_BEFORE_LEAVING = (SendPoint.RELEASED, SendPoint.RENDERED, SendPoint.BEFORE_SENDING)


def crash(proof_session: ProofSession, clean: Clean) -> Observation:
    """Before a run has landed, each run that follows must do all of it: it dies one step further, until one gets
    through. From then on each step has its own scratch copy: what landed is there, and the next run must see it."""
    steps: list[Sequence[Point | SendPoint]] = [_BEFORE_LANDING]
    steps += [(point,) for point in Point if point not in _BEFORE_LANDING]
    if proof_session.task.effects:
        steps += [_BEFORE_LEAVING, *((point,) for point in SendPoint if point not in _BEFORE_LEAVING)]
    passed: list[str] = []
    for points in steps:
        with proof_session.copy() as copy:
            died = [point.value for point in points if _dies(proof_session, copy, crash_at(point))]
            passed += died
            copy.run(proof_session.slices)
            found = proof_session.difference(clean, copy)
            if found is not None:
                return Observation(f"died at {', '.join(died)}, then run again", found)
    return Observation(f"died at each of {len(passed)} steps, then run again")


def double_fire(proof_session: ProofSession, clean: Clean) -> Observation:
    """The second fires while the first is about to publish, with the first's lease run out: both get through to
    the table, and one commit may land."""
    with proof_session.copy() as copy:
        ends: list[str] = []

        def fire(passed: Point | SendPoint) -> None:
            if passed is Point.PUBLISHING and not ends:
                copy.clock.pass_an_hour()
                with armed(lambda _: None):
                    ends.append(_end_of(proof_session, copy))

        with armed(fire):
            first = _end_of(proof_session, copy)
        if not ends:
            raise NotApplicable("the run had nothing to publish")
        return Observation(f"two at once: the one {ends[0]}, the other {first}", proof_session.difference(clean, copy))


def parallelism(proof_session: ProofSession, clean: Clean) -> Observation:
    for parts, adaptive in ((1, "false"), (8, "true")):
        reason = f"{parts} partitions, adaptive execution {'on' if adaptive == 'true' else 'off'}"
        seen = _disturbed(proof_session, clean, reason, Disturbance(settings(parts, adaptive), spread(parts)))
        if seen.difference is not None:
            return seen
    # Settings are disturbed whatever the task reads; its inputs only where they are reached.
    reached = proof_session.reached
    inputs = reached.but_for if reached.frames else "; its inputs as they are"
    return Observation(f"1 partition and 8, adaptive execution off and on{inputs}")


def row_order(proof_session: ProofSession, clean: Clean) -> Observation:
    proof_session.reached.needed("task")
    for descending in (False, True):
        reason = f"inputs in the order of a hash of their rows, {'descending' if descending else 'ascending'}"
        seen = _disturbed(proof_session, clean, reason, Disturbance(settings(1, "false"), ordered(descending)))
        if seen.difference is not None:
            return seen
    but_for = proof_session.reached.but_for
    return Observation(f"inputs in the order of a hash of their rows, and in the opposite one{but_for}")


def _disturbed(proof_session: ProofSession, clean: Clean, reason: str, disturbance: Disturbance) -> Observation:
    with proof_session.copy(disturbance) as copy:
        copy.run(proof_session.slices)
        return Observation(reason, proof_session.difference(clean, copy))


def _end_of(proof_session: ProofSession, copy: ScratchCopy) -> str:
    """How a run ended, in a word: of two at once, one may lose."""
    try:
        return copy.run(proof_session.slices)[-1].outcome.value
    except TwiceError as error:
        return error.code


def _dies(proof_session: ProofSession, copy: ScratchCopy, action: Action) -> bool:
    """Whether the run reached that step. An hour later, so that its lease is over."""
    try:
        with armed(action):
            copy.run(proof_session.slices)
    except Crash:
        copy.clock.pass_an_hour()
        return True
    return False


PLAYS: dict[str, tuple[Scenario, Play]] = {
    scenario.name: (scenario, play)
    for scenario, play in (
        (Scenario("twice", "run again, and computed again on purpose"), twice),
        (Scenario("crash", "died at every step, then run again"), crash),
        (Scenario("double-fire", "two runs of one slice at once"), double_fire),
        (Scenario("parallelism", "1 and 8 partitions, adaptive execution off and on"), parallelism),
        (Scenario("row-order", "inputs in another order"), row_order),
        (Scenario("kill", "really killed (SIGKILL), then run again", default=False), kill),
        (Scenario("thrice", "computed again two times more", default=False), thrice),
        (Scenario("partial", "a Spark job died in the middle of its rows", default=False), partial),
        (Scenario("batch", "two slices in one commit, and one by one", default=False), batch),
        (Scenario("out-of-order", "two slices in both orders", default=False), out_of_order),
        (Scenario("late-rows", "published without some rows, then with them", default=False), late_rows),
        (Scenario("later", "computed again weeks later", default=False), later),
        (Scenario("shifted", "in a process whose clock is weeks ahead", default=False), shifted),
    )
}
