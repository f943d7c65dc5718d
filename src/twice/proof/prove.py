"""`prove_task`: play the scenarios with one slice of a task, each in a scratch copy, and say what differed."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.clock import SYSTEM_CLOCK
from twice.core.proof import Cause, Difference, Proof, Scenario, Trial, Verdict, played
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.engine.suspects import BY, DOUBLES
from twice.errors import TwiceError, UsageError
from twice.proof.bench import Bench, Clean, bench
from twice.proof.scenarios import PLAYS, Play
from twice.proof.scratch import Laboratory, NotApplicable, World

SCENARIOS: tuple[Scenario, ...] = tuple(scenario for scenario, _ in PLAYS.values())
"""All there are, in the order they are played."""


def prove_task(lab: Laboratory, task: Task, date: str | None, scenarios: Sequence[str] = ()) -> Proof:
    """Play these scenarios (none: those that are the default) with the slice of that date. The user's tables, ledger
    and receivers are only read; dying anywhere leaves a temporary folder, nothing else."""
    chosen = _chosen(scenarios)
    slice_ = slice_named(task.scope, date)
    began, at = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.now()
    try:
        with bench(lab, task, (slice_,)) as ground, ground.world() as first:
            trials, notes = _played(ground, first, chosen)
    except NotApplicable as error:
        trials, notes = tuple(Trial(name, Verdict.NOT_APPLICABLE, str(error)) for name in chosen), ()
    took = SYSTEM_CLOCK.monotonic() - began
    return Proof(task.name, slice_.label, lab.shop.code_hash(task), at, trials, took, notes)


def _chosen(names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in PLAYS]
    if unknown:
        raise UsageError(f"there is no scenario {unknown[0]!r}", fix=f"Known: {', '.join(PLAYS)}.")
    return [name for name, (scenario, _) in PLAYS.items() if (name in names if names else scenario.default)]


def _played(ground: Bench, first: World, chosen: Sequence[str]) -> tuple[tuple[Trial, ...], tuple[str, ...]]:
    try:
        clean = ground.clean(first)
    except TwiceError:
        if not first.calls:
            raise
        return _speaks_by_itself(first, chosen), ()
    trials = [_trial(ground, clean, name, PLAYS[name][1]) for name in chosen]
    return tuple(trials), _notes(ground)


def _trial(ground: Bench, clean: Clean, name: str, play: Play) -> Trial:
    began = SYSTEM_CLOCK.monotonic()
    try:
        seen = play(ground, clean)
    except NotApplicable as error:
        return Trial(name, Verdict.NOT_APPLICABLE, str(error), seconds=SYSTEM_CLOCK.monotonic() - began)
    return played(name, seen.reason, seen.difference, SYSTEM_CLOCK.monotonic() - began)


def _speaks_by_itself(world: World, chosen: Sequence[str]) -> tuple[Trial, ...]:
    """The code calls the outside world each time it runs. Nothing left, and nothing more can be said of its rows."""
    where = ", ".join(dict.fromkeys(world.calls))
    cause = Cause(
        "effect in the code",
        (),
        f"the task's own code calls {where} each time it runs, so a rerun calls again",
        "Declare it: effects=[webhook(…)], slack(…), email(…) or call(…). It is then sent once, after the publish.",
    )
    changed = Trial(chosen[0], Verdict.CHANGED, "the code calls out by itself", Difference((), 0, 0, causes=(cause,)))
    rest = [Trial(name, Verdict.NOT_APPLICABLE, f"the code calls {where}") for name in chosen[1:]]
    return (changed, *rest)


def _notes(ground: Bench) -> tuple[str, ...]:
    ignored = ground.ignored
    refused = [one for one in ground.likely if one.name not in (*ground.task.policy.allow, DOUBLES, BY)]
    notes = [f"not compared, since the policy allows it to differ: {', '.join(ignored)}"] if ignored else []
    notes += [f"twice run would refuse this plan: {one.name} reaches {', '.join(one.columns)}" for one in refused]
    return tuple(notes)
