"""What a run leaves on record that finds its slices published and right: up to which versions of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twice.core.ledger.record import NO_LEAVES, Facts, RunRecord, SliceRecord
from twice.runtime.result.compute import Computed
from twice.runtime.run.attempt import Attempt
from twice.runtime.staleness.code_change import parts_to_keep
from twice.runtime.staleness.decide import SliceState, difference


def unchanged_facts(
    attempt: Attempt, runs: Mapping[str, RunRecord], computed: Computed, states: Sequence[SliceState]
) -> Facts:
    """The tables, at these versions, of which what is published is right and left as it is, by slice. What stays by
    policy, whatever its inputs are by now, is not thereby right.

    Of a publish that was adopted (the ledger was rebuilt) there is no record of what it was made of. That it is the
    same as now shows it: it is recorded here, with the code and inputs of which it is true, and the next plan knows.
    """
    same = {state.label for state in states if difference(state) is None}
    adopted = sorted(label for label in same if label in runs and runs[label].published is None)
    unknown = _unrecorded(attempt, adopted)
    leaves = tuple(record for record in computed.leaf_records() if record.label in unknown)
    pins = tuple(record for record in computed.pin_records(attempt.plan.slices) if record.label in same)
    slices = tuple(SliceRecord(label, intention=computed.intentions[label]) for label in adopted)
    right = [state.published for state in states if state.label in same]
    return Facts(slices=slices, inputs=leaves + pins, code_parts=parts_to_keep(attempt.context, attempt.task, right))


def _unrecorded(attempt: Attempt, adopted: Sequence[str]) -> set[str]:
    held = attempt.context.ledger.inputs(attempt.task.name, adopted) if adopted else {}
    return {label for label in adopted if all(record.kind in NO_LEAVES for record in held.get(label, ()))}
