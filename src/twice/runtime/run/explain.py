"""plan: what a run would do, and why. It only reads.

Opening a project may have changed the ledger before that: one from an earlier version is migrated, and the tables are
asked which of its old records are their own (assign.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twice.core.ports import Leaf, Suspicion
from twice.core.results.summary import Summarized, Table, counted
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.result.compute import Pins, compute
from twice.runtime.result.window import next_window
from twice.runtime.run.run_many import with_lookback
from twice.runtime.staleness.decide import Decision, SliceState, decide, rerun_of
from twice.runtime.table.cut import in_doubt, stored_cut
from twice.runtime.table.displaced_rows import displaced
from twice.runtime.table.owner import refuse_taken
from twice.runtime.table.provenance import provenance_of
from twice.runtime.write_plan import make_write_plan, tokens_in


@dataclass(frozen=True, repr=False)
class Explanation(Summarized):
    """`suspicions` would stop the run; `leaves` is what it would read. `quarantined`: a run would refuse it.
    `earlier`: the slices that the same call would look at before this one, oldest first."""

    task: str
    target: str
    write: str
    label: str
    generation: int
    version: int | None
    compute: bool
    why: str
    leaves: tuple[Leaf, ...]
    suspicions: tuple[Suspicion, ...]
    quarantined: bool = False
    earlier: tuple[Explanation, ...] = ()

    def __str__(self) -> str:
        end = "would be computed" if self.compute else "would stay as it is"
        held = ", but is quarantined" if self.quarantined else ""
        before = f", after {counted(len(self.earlier), 'earlier slice')}" if self.earlier else ""
        return f"{self.task}[{self.label}]: {end}{held} ({self.why}){before}"

    def as_table(self) -> Table:
        reads = [("reads", f"{leaf.kind} {leaf.name}", leaf.version, None) for leaf in self.leaves]
        refused = [("would be refused", each.name, None, ", ".join(each.columns)) for each in self.suspicions]
        return ("", "what", "version", "columns"), [*reads, *refused]


def _idle(task: Task, slice_: Slice, generation: int, version: int | None) -> Explanation:
    why = "nothing new: the source has not moved beyond the mark"
    return Explanation(
        task.name, str(task.target), task.write.name, slice_.label, generation, version, False, why, (), ()
    )


def explain_run(context: RunContext, task: Task, slice_: Slice) -> tuple[Explanation, ...]:
    """Every slice that a run of this one would look at, oldest first: its scope may look back."""
    return tuple(explain(context, task, each) for each in with_lookback(task, (slice_,), "run"))


def explain(context: RunContext, task: Task, slice_: Slice) -> Explanation:
    held = slice_.label in context.ledger.quarantined(task.name)
    return replace(_explain(context, task, slice_), quarantined=held)


def _explain(context: RunContext, task: Task, slice_: Slice) -> Explanation:
    plan = make_write_plan(context.project.id, task, (slice_,))
    session = context.engine.fresh()
    target = context.target_of(task.target, session)
    published = target.published(task.target, plan.token_names)
    refuse_taken(context.project.id, task, published.owners)
    (token,) = tokens_in(plan, published.generations)
    generation, held = token.generation, provenance_of(context, task, target, token)
    recut = in_doubt(stored_cut(context, task, target, published), task, target, token, held)
    pins = Pins(context, session)
    window = None
    if isinstance(task.scope, Since):
        window, _ = next_window(context, task, generation, pins)
        if window is None:
            return _idle(task, slice_, generation, published.version)
    computed = compute(context, task, plan, pins, window)
    label = slice_.label
    present, because = computed.intentions[label], computed.because.get(label)
    state = SliceState(
        label, generation, held.intention, present, because, recut, label in displaced(context.ledger, task)
    )
    decision = decide("run", rerun_of(task), [state])
    if window is not None:
        decision = Decision(True, f"rows of {window}")
    return Explanation(
        task.name,
        str(task.target),
        task.write.name,
        slice_.label,
        generation,
        published.version,
        decision.compute,
        decision.why,
        computed.leaves[slice_.label],
        tuple(s for s in computed.suspicions if s.name not in task.policy.allow),
    )
