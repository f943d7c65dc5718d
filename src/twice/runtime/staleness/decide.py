"""Is a published slice still right? One pure function, used by run, plan and backfill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twice.core.closed import assert_never
from twice.core.ledger.code_parts import CODE_CHANGED
from twice.core.lineage import INPUTS_CHANGED, NO_VERSION, InputChange
from twice.core.table.token import Intention, Kind
from twice.core.task import Rerun, Task

INPUTS_NOT_NAMED = "rows of it were displaced by newer ones of other slices, or an input had no version"
TAKEN_BACK = "the table was another task's since it was published, and taken back: its rows may be the other's"
KEPT_AS_ADOPTED = "adopted: it was there before twice, and stays as it is; restate computes it again"
RECUT = "the task has cut its table into other slices meanwhile"


@dataclass(frozen=True)
class SliceState:
    """What is known of one slice before the write: `published` is None where there is no record. `because` says more
    exactly why its inputs are not, or cannot be shown to be, what they were. `recut`: slices that were cut differently
    may have overwritten it, or it was one itself. `displaced`: rows of it were, by newer ones of other slices.
    `taken_back`: its table was another task's since, which may have overwritten it. `code_change`: which part of the
    code is another, in words."""

    label: str
    generation: int
    published: Intention | None
    present: Intention
    because: InputChange | None = None
    recut: bool = False
    displaced: bool = False
    taken_back: bool = False
    code_change: str | None = None

    @property
    def overwritten(self) -> str | None:
        """Why what was published is not this slice, or not any more, whatever the policy says; None if it is."""
        if self.recut:
            return RECUT
        return TAKEN_BACK if self.taken_back else None


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
    overwritten = [why for state in states if (why := state.overwritten)]
    if overwritten:
        return Decision(True, overwritten[0])
    match rerun:
        case "never":
            if any(state.displaced for state in states):  # it was never published whole
                return Decision(True, INPUTS_NOT_NAMED)
            return Decision(False, 'published, and rerun="never"')
        case "always":
            return Decision(True, 'rerun="always"')
        case "when_changed":
            reasons = [reason for state in states if (reason := difference(state))]
            if reasons:
                return Decision(True, reasons[0])
            adopted = any(state.published is not None and state.published.adopted for state in states)
            return Decision(False, KEPT_AS_ADOPTED if adopted else "same code, same inputs")
        case _:
            assert_never(rerun)


def corrects(kind: Kind, states: Sequence[SliceState]) -> bool:
    """Whether a run is meant to put right what is published: asked for by name, or computed by other code (or by code
    that is not on record). What other inputs give is no correction: it is as good as what is there."""
    return kind == "restate" or any(
        state.generation
        and (state.overwritten or state.published is None or state.published.code != state.present.code)
        for state in states
    )


def rerun_of(task: Task) -> Rerun:
    """What is published by a strategy that cannot restate stays, whatever the policy says."""
    return task.policy.rerun if task.write.restatable else "never"


def difference(state: SliceState) -> str | None:
    """How a published slice differs from what a run would publish now, by code and by inputs; None if it is shown to
    be the same."""
    if state.overwritten:
        return state.overwritten
    if state.published is None:
        return "there is no record of what it was computed from"
    if state.published.adopted:
        return None  # a person has declared it right
    reasons = [state.code_change or CODE_CHANGED] if state.published.code != state.present.code else []
    if state.present.inputs is None:
        reasons.append(state.because.why if state.because else NO_VERSION)
    elif state.published.inputs != state.present.inputs and (
        not reasons or (state.because is not None and not state.because.of_the_code)
    ):
        # Other code mostly makes another plan: that is not a second reason.
        unnamed = INPUTS_NOT_NAMED if state.published.inputs is None else INPUTS_CHANGED
        reasons.append(state.because.why if state.because else unnamed)
    return ", and ".join(reasons) or None
