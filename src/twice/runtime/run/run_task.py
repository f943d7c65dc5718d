"""One run, read downward. Every step is one named helper, a span in `seconds`, and a failpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twice.core.audit import measures_of
from twice.core.failure.failpoints import Point, hit
from twice.core.hints import command, hint
from twice.core.ledger.record import AttemptState, Facts, InputRecord, SliceRecord
from twice.core.ports import PLAN, Measured, Staged
from twice.core.results.run import PLAIN_RUN, Outcome, RunRequest, RunResult, SliceResult
from twice.core.since import Since, Window, mark_text
from twice.core.slice import Slice
from twice.core.table.mark import version_of
from twice.core.table.token import Kind
from twice.core.task import Task
from twice.errors import AuditFailed, EmptyRefused, StageMismatch, TwiceError, UsageError
from twice.runtime.context import RunContext
from twice.runtime.result.audits import StagedRows, held_before, overwritten_rows, run_audits
from twice.runtime.result.compute import Computed, compute, naming_rebuild, refuse_suspicions, unsure_functions
from twice.runtime.result.pins import Pins
from twice.runtime.result.window import next_window
from twice.runtime.run.attempt import Attempt, StagedRun, discarding, ended, releasing_on_interrupt, reported
from twice.runtime.run.lease import Heartbeat, beating, claim_slices
from twice.runtime.run.publish import finish, publish
from twice.runtime.run.retry import AttemptCount
from twice.runtime.run.send_effects import send_effects
from twice.runtime.run.unchanged import unchanged_facts
from twice.runtime.staleness.code_change import naming_changes, parts_to_keep
from twice.runtime.staleness.correction import winning_ties
from twice.runtime.staleness.decide import Decision, SliceState, decide, difference, rerun_of
from twice.runtime.staleness.kept import left_behind
from twice.runtime.staleness.published_since import GenerationsAtStart, published_after, published_since
from twice.runtime.staleness.settle_above import settle_above
from twice.runtime.table.copied import rows_made_at
from twice.runtime.table.nothing_after import NOT_MOVED, nothing_after
from twice.runtime.table.settle import TableState, look
from twice.runtime.table.stored_mark import cursor_input, refuse_other_kind, stored_mark, written_over
from twice.runtime.write_plan import layout_of, make_write_plan


@dataclass(frozen=True)
class _Run:
    """What all attempts of one run share."""

    context: RunContext
    task: Task
    slices: tuple[Slice, ...]
    request: RunRequest
    at_start: GenerationsAtStart


def run_task(context: RunContext, task: Task, slices: tuple[Slice, ...], request: RunRequest = PLAIN_RUN) -> RunResult:
    """Make these slices right. Run it again after any end whatever: it looks first, then does what is missing.
    A transient error is tried again by itself, as the task's policy says: always as a whole attempt (a new claim, a new
    fence, a look first), never as a blind commit. Between two attempts nothing is held, so dying in a pause loses
    nothing: the next run begins at once, and looks."""
    run = _Run(context, task, slices, request, GenerationsAtStart(request.planned))
    attempts = AttemptCount(context, task, tuple(slice_.label for slice_ in slices))
    while True:
        try:
            return _run_once(run, attempts.begin())
        except TwiceError as error:
            pause = attempts.pause_after(error)
        context.pause(pause.total_seconds())


def _run_once(run: _Run, attempt_id: str) -> RunResult:
    context, task, request = run.context, run.task, run.request
    trace = context.trace(task, run.slices)
    run.at_start.begins(attempt_id)
    with trace.step("plan"):
        refuse_kind(task, request.kind)
        plan = make_write_plan(context.project.id, task, run.slices)
        refuse_other_kind(context, task, plan)
    hit(Point.AFTER_PLAN)
    with trace.step("claim"), releasing_on_interrupt(context, attempt_id):
        claim = claim_slices(context, task, plan, request, attempt_id)
    with reported(context, claim, trace) as landing:
        hit(Point.AFTER_CLAIM)
        with beating(context, claim) as heartbeat, context.session() as session:
            target = context.target_of(task.target, session)
            attempt = Attempt(context, task, plan, request, claim, trace, session, target, landing, run.at_start)
            result = _run_claimed(attempt, heartbeat)
    return send_effects(attempt, result)


def _run_claimed(attempt: Attempt, heartbeat: Heartbeat) -> RunResult:
    step = attempt.trace.step
    pins = Pins(attempt.context, attempt.session)
    with step("look"):
        found, window = _look(attempt, pins)
    if window is None and isinstance(attempt.task.scope, Since):
        return _nothing_new(attempt, found, attempt.task.scope, pins)
    moved = _moved(attempt, found)
    hit(Point.AFTER_LOOK)
    with step("compute"), pins.blaming_changed_files():
        computed = compute(attempt.context, attempt.task, attempt.plan, pins, window)
        decision = _decide(attempt, found, computed, window)
    if not decision.compute:
        return _unchanged(attempt, found, decision.why, computed)
    made = None if window else published_since(attempt.kind, moved, states(found, computed))
    if made is not None:
        return _unchanged(attempt, found, made)  # it is not shown of which versions it is right
    refuse_suspicions(attempt.task, computed, attempt.where)
    attempt.notes.extend(unsure_functions(computed))
    hit(Point.AFTER_COMPUTE)
    with step("stage"), discarding(attempt), pins.blaming_changed_files():
        ready = _stage(attempt, found, computed, decision.why, window)
    hit(Point.AFTER_STAGE)
    with step("audit"), discarding(attempt):
        ready = _audit(attempt, ready)
    hit(Point.AFTER_AUDIT)
    with step("publish"), discarding(attempt):
        pins.refuse_changed_files()
        end = publish(attempt, ready, heartbeat)
    hit(Point.AFTER_PUBLISH)
    return finish(attempt, ready, end)


def refuse_kind(task: Task, kind: Kind) -> None:
    """Some tasks cannot be computed again: refused before anything is claimed."""
    if kind != "restate":
        return
    if isinstance(task.scope, Since):
        raise UsageError(
            "an incremental task has no slice to compute again: it continues from its mark",
            where=task.name,
            now="The table is unchanged.",
            fix=f"To read rows again, set the mark back: twice mark reset {task.name} --to ….",
        )
    if not task.write.restatable:
        raise UsageError(
            f"{task.write.name}() cannot be restated: its rows have no key, so they would be duplicated",
            where=task.name,
            now="The table is unchanged.",
            fix="Use replace() or merge(key) where a slice must be computed again.",
        )


def _look(attempt: Attempt, pins: Pins) -> tuple[TableState, Window | None]:
    """Fix the generation, and an incremental task's upper bound. They are stored with the attempt and never
    computed again."""
    found = look(attempt.context, attempt.task, attempt.plan, attempt.target, attempt.id)
    attempt.notes.extend(found.notes)
    least = attempt.request.at_least
    aims = {label: max(generation + 1, least.get(label, 0)) for label, generation in found.generations.items()}
    window, scope = None, attempt.task.scope
    if isinstance(scope, Since):
        label = scope.only.label
        window, notes = next_window(attempt.context, attempt.task, found.generations[label], pins)
        attempt.notes.extend(notes)
        if label in found.recut:
            attempt.notes.extend(written_over(attempt.context.ledger, attempt.task, scope, found.generations[label]))
        if window is None:
            return found, None
        aims = {label: version_of(window.high)}
    attempt.context.ledger.fix(attempt.claim, found.generations, aims)
    return replace(found, aims=aims), window


def _decide(attempt: Attempt, found: TableState, computed: Computed, window: Window | None) -> Decision:
    if window is not None:
        return Decision(True, f"rows of {window}")
    known = naming_changes(attempt.context, attempt.task, states(found, computed))
    decision = decide(attempt.kind, rerun_of(attempt.task), known)
    if not decision.compute and not attempt.task.write.restatable:
        changed = [reason for state in known if (reason := difference(state)) and _was_compared(attempt, state)]
        attempt.notes.extend(f"what was appended stays, although {reason}" for reason in changed[:1])
    return decision


def _was_compared(attempt: Attempt, state: SliceState) -> bool:
    """An earlier version of twice compared tables alone: what it published is not thereby of other inputs."""
    if state.published is None or state.published.code != state.present.code:
        return True
    held = attempt.context.ledger.inputs(attempt.task.name, [state.label]).get(state.label, ())
    return any(record.kind in (PLAN, "rows") for record in held)


def _moved(attempt: Attempt, found: TableState) -> tuple[str, ...]:
    """The slices that were published since somebody decided on this run. The look has just brought the ledger up."""
    ledger, fence = attempt.context.ledger, attempt.request.after_fence
    made = _made_at(attempt, found, attempt.at_start.planned)
    moved = attempt.at_start.moved(made, lambda earlier: _landed(attempt, earlier))
    if fence is None:
        return moved
    later = published_after(ledger, attempt.task.name, found.generations, fence)
    made = _made_at(attempt, found, {label: found.generations[label] - 1 for label in later})
    return (*moved, *(label for label in later if made[label] == found.generations[label]))


def _made_at(attempt: Attempt, found: TableState, since: Mapping[str, int]) -> dict[str, int]:
    """What a rebuild has only copied was made by whoever published it before."""
    return rows_made_at(attempt.context.project.id, attempt.task, attempt.target, found.generations, since)


def _landed(attempt: Attempt, earlier: str) -> bool:
    record = attempt.context.ledger.attempt(earlier)
    return record is not None and record.state is AttemptState.PUBLISHED


def _nothing_new(attempt: Attempt, found: TableState, scope: Since, pins: Pins) -> RunResult:
    """The source has not moved beyond the mark. No table was written. What there is to note is found by reading again:
    then nothing is kept that would answer the next run without it."""
    generation = found.generations[scope.only.label]
    _, table = cursor_input(attempt.task, scope)
    source = pins.tables[attempt.context.project.located(table)]
    seen = () if attempt.notes else nothing_after(attempt.context, attempt.task, generation, source.version, source.id)
    result = _unchanged(attempt, found, NOT_MOVED, inputs=seen)
    mark = stored_mark(attempt.context.ledger, attempt.task, scope, generation)
    return replace(result, outcome=Outcome.NOTHING_NEW, mark=None if mark is None else mark_text(mark))


def states(found: TableState, computed: Computed) -> list[SliceState]:
    """What is known of each slice, for `decide`."""
    return [
        SliceState(
            label,
            generation,
            found.intentions[label],
            computed.to_compare(label),
            computed.because.get(label),
            label in found.recut,
            label in found.displaced,
            label in found.taken_back,
        )
        for label, generation in found.generations.items()
    ]


def _unchanged(
    attempt: Attempt,
    found: TableState,
    why: str,
    computed: Computed | None = None,
    inputs: tuple[InputRecord, ...] = (),
) -> RunResult:
    """Nothing to write. The table was only read. `computed`, where it was compared with what is published."""
    ledger = attempt.context.ledger
    runs = ledger.runs_of(attempt.task.name, tuple(found.generations))
    shown = Facts() if computed is None else unchanged_facts(attempt, runs, computed, states(found, computed))
    attempt.notes.extend(found.others.notes(attempt.task, published=False))
    facts = replace(
        shown,
        inputs=(*shown.inputs, *inputs),
        why=why,
        version=found.version,
        notes=tuple(attempt.notes),
        seconds=attempt.trace.seconds,
    )
    ledger.close_attempt(attempt.id, AttemptState.UNCHANGED, facts)
    ledger.discarded(attempt.id)
    slices = []
    for label, generation in found.generations.items():
        run = runs.get(label)
        slices.append(SliceResult(label, generation, run.rows if run else None, run.fingerprint if run else None))
    return ended(attempt, Outcome.ALREADY, tuple(slices), why, found.version)


def _stage(attempt: Attempt, found: TableState, computed: Computed, why: str, window: Window | None) -> StagedRun:
    """Write the rows where readers do not see them, counting them in flight.

    Dying in here leaves invisible files that carry the attempt's name, and the table as it was.
    """
    task = attempt.task
    attempt.landing.staging = True
    needs = layout_of(attempt.context.project.id, task)
    with naming_rebuild(task):
        into = attempt.target.prepare(task.target, computed.shape, needs, task.policy.evolve)
    observed = attempt.context.engine.observe(computed.frame, attempt.plan.slices, measures_of(task.audits))
    plan = winning_ties(attempt.context, task, attempt.plan, attempt.kind, states(found, computed))
    plan = replace(plan, read_at=computed.read_at)
    staged = attempt.target.stage(task.target, observed.frame, plan, attempt.id, into=into)
    measured = observed.read()
    _verify(attempt, staged, measured)
    attempt.learns_rows(measured)
    facts = Facts(
        slices=_slice_records(found, computed, measured),
        inputs=computed.leaf_records() + computed.pin_records(attempt.plan.slices) + _beside(attempt, found),
        why=why,
        seconds=attempt.trace.seconds,
        code_parts=parts_to_keep(attempt.context, task, computed.intentions.values()),
    )
    attempt.context.ledger.advance(attempt.claim, AttemptState.CLAIMED, AttemptState.STAGED, facts)
    return StagedRun(staged, measured, computed, found, why, window=window)


def _beside(attempt: Attempt, found: TableState) -> tuple[InputRecord, ...]:
    """What must be on record of a publish beside what it read: rows of others that it replaces, and what was changed
    above behind its mark."""
    context, task = attempt.context, attempt.task
    if isinstance(task.scope, Since):
        settle_above(context, task, attempt.session)
    behind = left_behind(context.project, context.ledger, task)
    return overwritten_rows(context, task, attempt.target, attempt.plan.slices, found) + behind


def _verify(attempt: Attempt, staged: Staged, measured: Mapping[str, Measured]) -> None:
    """A lost executor can lose and double rows inside one job: what was counted must be what was written."""
    counted = sum(slice_.rows for slice_ in measured.values())
    if staged.rows + staged.deduplicated != counted:
        raise StageMismatch(
            f"{staged.rows + staged.deduplicated} rows were staged, but {counted} rows of the slice were computed",
            fix="Run it again. If it happens twice, the task's code gives another result each time it is evaluated.",
        )
    empty = [label for label, slice_ in measured.items() if not slice_.rows]
    if empty and attempt.task.policy.empty == "refuse":
        which = "the result" if len(measured) == 1 else f"the result of {', '.join(empty[:3])}"
        raise EmptyRefused(
            f'{which} is empty, and the task declares empty="refuse"',
            fix="Check its inputs for this slice. To let an empty result empty the slice, leave out empty=.",
        )


def _slice_records(found: TableState, computed: Computed, measured: Mapping[str, Measured]) -> tuple[SliceRecord, ...]:
    return tuple(
        SliceRecord(label, generation, computed.intentions[label], measured[label].rows, measured[label].fingerprint)
        for label, generation in found.generations.items()
    )


def _audit(attempt: Attempt, ready: StagedRun) -> StagedRun:
    """Fail before anyone sees it. Dying in here leaves the table as it was."""
    ledger, context, task = attempt.context.ledger, attempt.context, attempt.task
    before = held_before(context, task, attempt.target, attempt.plan.slices, ready.found)
    results = run_audits(context, task, attempt.target, StagedRows(ready.staged, ready.measured, before))
    facts = Facts(audits=results, seconds=attempt.trace.seconds)
    failed = [audit for audit in results if audit.stops]
    if failed:
        rejected = AuditFailed(
            "; ".join(f"audit {audit.name} failed: {audit.message}" for audit in failed),
            where=attempt.where,
            now="The rows were never visible; the table is unchanged.",
            fix=hint("See {}; correct the data or the code, then run again.", command("history", attempt.task.name)),
        )
        ledger.close_attempt(attempt.id, AttemptState.REJECTED, replace(facts, error=rejected.details()))
        raise rejected
    attempt.notes.extend(f"audit {a.name} warns: {a.message}" for a in results if not a.passed)
    ledger.advance(attempt.claim, AttemptState.STAGED, AttemptState.AUDITED, facts)
    return replace(ready, audits=results)
