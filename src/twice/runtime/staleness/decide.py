"""Is a published slice still right? One pure function, used by run, plan and backfill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twice.core.closed import assert_never
from twice.core.lineage import INPUTS_CHANGED, NO_VERSION
from twice.core.table.token import Intention, Kind
from twice.core.task import Rerun, Task

INPUTS_NOT_NAMED = "rows of it were displaced by newer ones of other slices, or an input had no version"
CODE_CHANGED = "the code or its options changed"
RECUT = "the task has cut its table into other slices meanwhile"


@dataclass(frozen=True)
class SliceState:
    """What is known of one slice before the write: `published` is None where there is no record. `because` says more
    exactly why its inputs are not, or cannot be shown to be, what they were. `recut`: slices that were cut differently
    may have overwritten it, or it was one itself. `displaced`: rows of it were, by newer ones of other slices."""

    label: str
    generation: int
    published: Intention | None
    present: Intention
    because: str | None = None
    recut: bool = False
    displaced: bool = False


@dataclass(frozen=True)
class Decision:
    """`compute` says whether to go on to the write; `why` is shown to people and kept in the ledger."""

    compute: bool
    why: str


def decide(kind: Kind, rerun: Rerun, states: Sequence[SliceState]) -> Decision:
    """Compute unless it can be *shown* that the same code on the same inputs is published."""
    if kind == "restate":
        return Decision(True, "restated on request")
    missing = [state.label for state in states if state.generation == 0]
    if missing:
        return Decision(True, "never published" if len(states) == 1 else f"never published: {', '.join(missing)}")
    if any(state.recut for state in states):
        return Decision(True, RECUT)  # whatever the policy says: what was published is not this slice, or not any more
    match rerun:
        case "never":
            if any(state.displaced for state in states):  # it was never published whole
                return Decision(True, INPUTS_NOT_NAMED)
            return Decision(False, 'published, and rerun="never"')
        case "always":
            return Decision(True, 'rerun="always"')
        case "when_changed":
            reasons = [reason for state in states if (reason := difference(state))]
            return Decision(True, reasons[0]) if reasons else Decision(False, "same code, same inputs")
        case _:
            assert_never(rerun)


def corrects(kind: Kind, states: Sequence[SliceState]) -> bool:
    """Whether a run is meant to put right what is published: asked for by name, or computed by other code (or by code
    that is not on record). What other inputs give is no correction: it is as good as what is there."""
    return kind == "restate" or any(
        state.generation and (state.recut or state.published is None or state.published.code != state.present.code)
        for state in states
    )


def rerun_of(task: Task) -> Rerun:
    """What is published by a strategy that cannot restate stays, whatever the policy says."""
    return task.policy.rerun if task.write.restatable else "never"


def difference(state: SliceState) -> str | None:
    """How a published slice differs from what a run would publish now, by code and by inputs; None if it is shown to
    be the same."""
    if state.recut:
        return RECUT
    if state.published is None:
        return "there is no record of what it was computed from"
    reasons = [CODE_CHANGED] if state.published.code != state.present.code else []
    if state.present.inputs is None:
        reasons.append(state.because or NO_VERSION)
    elif state.published.inputs != state.present.inputs and (not reasons or state.because == INPUTS_CHANGED):
        # Other code mostly makes another plan: that is not a second reason.
        reasons.append(state.because or (INPUTS_NOT_NAMED if state.published.inputs is None else INPUTS_CHANGED))
    return ", and ".join(reasons) or None
