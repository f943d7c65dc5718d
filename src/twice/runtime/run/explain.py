"""plan: what a run would do, and why. It only reads.

Opening a project may have changed the ledger before that: one from an earlier version is migrated, and the tables are
asked which of its old records are their own (assign.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twice.core.ports import Leaf, Suspicion
from twice.core.results.summary import Summarized, Table, counted, run_label
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Task
from twice.errors import InputMissing, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.result.compute import compute
from twice.runtime.result.pins import Pins
from twice.runtime.result.window import next_window
from twice.runtime.run.run_many import of_date, with_lookback
from twice.runtime.staleness.code_change import naming_changes
from twice.runtime.staleness.decide import Decision, SliceState, decide, rerun_of
from twice.runtime.staleness.stale import reads_of
from twice.runtime.table.cut import stored_cut
from twice.runtime.table.displaced_rows import displaced
from twice.runtime.table.nothing_after import NOT_MOVED
from twice.runtime.table.owner import refuse_taken
from twice.runtime.table.provenance import provenance_of
from twice.runtime.table.taken_back import taken_back
from twice.runtime.write_plan import make_write_plan, tokens_in


@dataclass(frozen=True, repr=False)
class Explanation(Summarized):
    """`suspicions` would stop the run; `leaves` is what it would read. `quarantined`: a run would refuse it.
    `earlier`: the slices that the same call would look at before this one, oldest first. `not_watched`: the names of
    leaves whose changes make no slice stale. `after`: in a plan of all tasks those above that are, or may be, computed
    first: what they publish may have this slice computed, too."""

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
    not_watched: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __str__(self) -> str:
        end = "would be computed" if self.compute else "would stay as it is"
        held = ", but is quarantined" if self.quarantined else ""
        before = f", after {counted(len(self.earlier), 'earlier slice')}" if self.earlier else ""
        unless = f", unless {' and '.join(self.after)}, run before it, changes what it reads"
        return f"{self.task}[{self.label}]: {end}{held} ({self.why}){before}{unless if self.open else ''}"

    @property
    def open(self) -> bool:
        """Whether it depends on what the tasks above publish first."""
        return bool(self.after) and not self.compute

    def as_table(self) -> Table:
        reads = [("reads", f"{leaf.kind} {leaf.name}", leaf.version, None) for leaf in self.leaves]
        refused = [("would be refused", each.name, None, ", ".join(each.columns)) for each in self.suspicions]
        return ("", "what", "version", "columns"), [*reads, *refused]


def idle(task: Task, label: str, generation: int, version: int | None) -> Explanation:
    """Of an incremental task with nothing to read."""
    why = f"nothing new: {NOT_MOVED}"
    return Explanation(task.name, str(task.target), task.write.name, label, generation, version, False, why, (), ())


@dataclass(frozen=True)
class TaskPlan:
    """What the runs of one date would do with one task: its slices, oldest first; or why it could not be planned, or
    has nothing to do with the date."""

    task: str
    slices: tuple[Explanation, ...] = ()
    error: TwiceError | None = None
    left_out: str | None = None


def explain_all(
    context: RunContext,
    date_: str | None,
    report: Callable[[TaskPlan], None],
    chosen: Sequence[Task] | None = None,
) -> tuple[TaskPlan, ...]:
    """The chosen tasks of a date, or every one, each after the tasks it reads from. One that cannot be planned does not
    stop the others. `report` hears of each task as soon as it is planned. Which published slices of other dates a chain
    would follow is not foreseen: that depends on what it publishes."""
    slices, left_out = of_date(context.project, date_, chosen)
    tasks = context.project.in_order() if chosen is None else tuple(chosen)
    plans: dict[str, TaskPlan] = {}
    moving: set[str] = set()
    for at, task in enumerate(tasks, 1):
        context.progress.counts(at, len(tasks), "task")
        above = [up for up in context.project.upstream(task) if up.name in moving]
        if task.name in left_out:
            plans[task.name] = TaskPlan(task.name, left_out=left_out[task.name])
        else:
            plans[task.name] = _plan_of(context, task, with_lookback(task, slices[task.name], "run"), above)
        moving |= {each.task for each in plans[task.name].slices if each.compute or each.open}
        report(plans[task.name])
    return tuple(plans.values())


def _plan_of(context: RunContext, task: Task, slices: Sequence[Slice], above: Sequence[Task]) -> TaskPlan:
    """`above`: the tasks it reads from that are computed first, or may be."""
    after = tuple(up.name for up in above if reads_of(context.project, task, up))
    try:
        return TaskPlan(task.name, tuple(replace(explain(context, task, each), after=after) for each in slices))
    except InputMissing as error:
        if not above:
            return TaskPlan(task.name, error=error.at(task.name))
        why = f"{error.what}, and {' and '.join(up.name for up in above)} would be run before it"
        return TaskPlan(task.name, tuple(_not_yet(context, task, each, why, after) for each in slices))
    except TwiceError as error:
        return TaskPlan(task.name, error=error.at(task.name))


def _not_yet(context: RunContext, task: Task, slice_: Slice, why: str, after: tuple[str, ...]) -> Explanation:
    """Of a slice whose input the tasks above are to make first."""
    plan = make_write_plan(context.project.id, task, (slice_,))
    published = context.target_of(task.target, context.engine.fresh()).published(task.target, plan.token_names)
    (token,) = tokens_in(plan, published.generations)
    known = (task.name, str(task.target), task.write.name, slice_.label, token.generation, published.version)
    return Explanation(*known, True, why, (), (), after=after)


def explain_run(context: RunContext, task: Task, slice_: Slice) -> tuple[Explanation, ...]:
    """Every slice that a run of this one would look at, oldest first: its scope may look back."""
    slices = with_lookback(task, (slice_,), "run")
    found = []
    for at, each in enumerate(slices, 1):
        context.progress.counts(at, len(slices), "slice")
        found.append(explain(context, task, each))
    return tuple(found)


def explain(context: RunContext, task: Task, slice_: Slice) -> Explanation:
    held = slice_.label in context.ledger.quarantined(task.name, [slice_.label])
    return replace(_explain(context, task, slice_), quarantined=held)


def _explain(context: RunContext, task: Task, slice_: Slice) -> Explanation:
    where = run_label(task.name, [slice_.label])
    context.progress.begins("look", where)
    plan = make_write_plan(context.project.id, task, (slice_,))
    session = context.engine.fresh()
    target = context.target_of(task.target, session)
    published = target.published(task.target, plan.token_names)
    refuse_taken(context.project.id, task, published.owners)
    (token,) = tokens_in(plan, published.generations)
    generation, held = token.generation, provenance_of(context, task, target, token)
    recut = stored_cut(context, task, target, published).doubts(generation, held.version)
    back = taken_back(context, task, target, [(token, held)], published.owners)
    pins = Pins(context, session)
    window = None
    if isinstance(task.scope, Since):
        window, _ = next_window(context, task, generation, pins)
        if window is None:
            return idle(task, slice_.label, generation, published.version)
    context.progress.begins("compute", where)
    computed = compute(context, task, plan, pins, window)
    label = slice_.label
    present, because = computed.to_compare(label), computed.because.get(label)
    left = label in displaced(context.ledger, task)
    state = SliceState(label, generation, held.intention, present, because, recut, left, label in back)
    decision = decide("run", rerun_of(task), naming_changes(context, task, [state]))
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
        not_watched=tuple(sorted(computed.not_watched)),
    )
