"""`prove_task`: play the scenarios with one slice of a task, each in a scratch copy, and report what differed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.results.proof import Proof, Scenario, SideEffect, Trial, TrialResult
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.errors import TwiceError
from twice.proof.enclosure.enclosure import only_findings, with_findings
from twice.proof.play import NotApplicable, choose, trial
from twice.proof.tasks.scenarios import PLAYS
from twice.proof.tasks.scratch import ProofSetup, ScratchCopy
from twice.proof.tasks.session import ProofSession, open_proof_session

SCENARIOS: tuple[Scenario, ...] = tuple(scenario for scenario, _ in PLAYS.values())
"""All there are, in the order they are played."""
_STRAGGLERS_S = 30.0


def prove_task(setup: ProofSetup, task: Task, date: str | None, scenarios: Sequence[str] = ()) -> Proof:
    """Play these scenarios (none: those that are the default) with the slice of that date. The user's tables, ledger
    and receivers are only read; dying anywhere leaves a temporary folder, nothing else."""
    chosen = chosen_scenarios(scenarios)
    slice_ = slice_named(task.scope, date)
    began, at = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.now()
    setup.context.progress.begins("copying the table", task.name)
    try:
        with open_proof_session(setup, task, (slice_,)) as proof_session, proof_session.copy() as first:
            trials, beside = _played(proof_session, first, chosen)
            notes, refused = _notes(proof_session), _refused(proof_session)
    except NotApplicable as error:
        trials = tuple(Trial(name, TrialResult.NOT_APPLICABLE, str(error)) for name in chosen)
        notes, refused, beside = (), (), ()
    took, code = SYSTEM_CLOCK.monotonic() - began, setup.context.code_hash(task)
    return Proof(task.name, slice_.label, code, at, trials, took, notes, beside, setup.enclosure.not_blocked, refused)


def chosen_scenarios(names: Sequence[str]) -> list[str]:
    return choose(PLAYS, names)


def _played(
    proof_session: ProofSession, first: ScratchCopy, chosen: Sequence[str]
) -> tuple[tuple[Trial, ...], tuple[SideEffect, ...]]:
    enclosure = proof_session.setup.enclosure
    enclosure.found()  # what an earlier proof's scenarios repeated is not this task's
    try:
        clean = proof_session.clean(first)
    except TwiceError as error:
        _wait_for_stragglers(proof_session.session)
        found = enclosure.behind(error)
        if not found:
            raise
        return only_findings(chosen, found), found
    # Of the clean run and its plan: a scenario's own disturbance is not to be blamed on the code.
    found = enclosure.found()
    progress, trials = proof_session.setup.context.progress, list[Trial]()
    for at, name in enumerate(chosen, 1):
        progress.counts(at, len(chosen), f"scenario {name},")
        trials.append(trial(name, partial(PLAYS[name][1], proof_session, clean)))
    return with_findings(trials, found), found


def _wait_for_stragglers(session: Any) -> None:
    """A job fails with its first task; the others may still be in the user's code, and what is refused to them belongs
    to this proof and not to the next one."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    deadline = SYSTEM_CLOCK.monotonic() + _STRAGGLERS_S
    while any(each.numRunningTasks() for each in tracker.getExecutorInfos()):
        if SYSTEM_CLOCK.monotonic() > deadline:
            return
        time.sleep(0.05)


def _notes(proof_session: ProofSession) -> tuple[str, ...]:
    ignored = proof_session.ignored
    return (f"not compared, since the policy allows it to differ: {', '.join(ignored)}",) if ignored else ()


def _refused(proof_session: ProofSession) -> tuple[str, ...]:
    """What the guard stops: the proof went past it, and a run does not."""
    return tuple(
        f'{one.name} reaches {", ".join(one.columns)}: {one.why}. {one.fix} Or accept it: allow=("{one.name}",).'
        for one in proof_session.refused
    )
