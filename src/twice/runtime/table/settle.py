"""What became of attempts that did not report back? The target is asked, never guessed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from twice.core.ledger.record import AttemptRecord, AttemptState, Facts, RunRecord, aim_of
from twice.core.ports import AttemptHistory, Claims, RunLedger, Target
from twice.core.since import Since
from twice.core.slice import WHOLE
from twice.core.table.mark import version_text
from twice.core.table.token import Intention, SliceToken, token_name
from twice.core.task import Task
from twice.core.write import WritePlan
from twice.runtime.context import RunContext
from twice.runtime.holder import is_gone
from twice.runtime.table.assign import assign_at_look
from twice.runtime.table.cut import StoredCut, stored_cut
from twice.runtime.table.displaced_rows import displaced
from twice.runtime.table.foreign_changes import ForeignChanges, changed_by_others
from twice.runtime.table.owner import refuse_taken
from twice.runtime.table.provenance import catch_up, forget_effects, record_landed
from twice.runtime.table.same_table import made_by_others
from twice.runtime.table.taken_back import may_be_overwritten, may_hold_others, taken_back
from twice.runtime.write_plan import tokens_in


@dataclass(frozen=True)
class TableState:
    """A look at the target: the table's version, each slice's generation and what it was published from.
    `aims`: the generations to publish, once they are fixed. `others`: what others did since; the note of it waits
    for the run's end. `cut`: how the table has the task's slices; `recut`: those that are in doubt for it.
    `displaced`: those of which rows were displaced by newer ones of other slices. `watched`: the tokens that say
    whose the table is and how it is cut, by name: the commit compares them too. `taken_back`: slices that were
    published before the table was another task's. `shared`: whether it may hold rows of others, or of other cuts."""

    version: int | None
    generations: Mapping[str, int]
    intentions: Mapping[str, Intention | None]
    notes: tuple[str, ...] = ()
    aims: Mapping[str, int] = field(default_factory=dict)
    others: ForeignChanges = field(default_factory=ForeignChanges)
    cut: StoredCut = field(default_factory=StoredCut)
    recut: frozenset[str] = frozenset()
    displaced: frozenset[str] = frozenset()
    watched: Mapping[str, int] = field(default_factory=dict)
    taken_back: frozenset[str] = frozenset()
    shared: bool = False

    @property
    def overwritten(self) -> frozenset[str]:
        """Slices whose rows in the table may be others than those that were published: what is on record of them is
        not what the table holds."""
        return self.recut | self.taken_back


def look(context: RunContext, task: Task, plan: WritePlan, target: Target, mine: str | None = None) -> TableState:
    """Ask the target what it holds; bring the ledger up to it. A second look changes nothing more. `mine` is the
    attempt that looks: it settles others, never itself. Raises TableTaken for a table that is another task's.

    Dying here leaves the ledger behind the target, which the next look finds again.
    """
    # Before the table: what was recorded then must be there, unless the table itself went back.
    recorded = context.ledger.runs_of(task.name, [slice_.label for slice_ in plan.slices])
    published = target.published(task.target, plan.compared)
    refuse_taken(context.project.id, task, published.owners)
    cut = stored_cut(context, task, target, published)
    context.ledger.gather(task.name)
    tokens = tokens_in(plan, published.generations)
    recorded = assign_at_look(context, task, target, tokens, recorded)
    notes = settle_passed(context, task, target, tokens, mine)
    _fence(context, task, target, tokens)
    for token in tokens:
        run = recorded.get(token.label)
        if run is not None and run.generation > token.generation:
            notes.append(_went_back(context, task, target, token, run.generation))
    known = context.ledger.runs_of(task.name, [token.label for token in tokens])
    for label, maker in made_by_others(context, task, target, tokens, known).items():
        notes.append(_exchanged(context, task, known.pop(label), maker))
    remembered = {token.label: catch_up(context, task, target, token, known.get(token.label)) for token in tokens}
    made = [(token, remembered[token.label]) for token in tokens]
    for each in made:
        notes.extend(may_be_overwritten(context, task, target, *each, published.owners))
    return TableState(
        published.version,
        {token.label: token.generation for token in tokens},
        {label: made.intention for label, made in remembered.items()},
        tuple(notes),
        others=changed_by_others(context, task, target, plan),
        cut=cut,
        recut=frozenset(token.label for token, each in made if cut.doubts(token.generation, each.version)),
        displaced=displaced(context.ledger, task),
        watched={name: published.generations[name] for name in plan.watched},
        taken_back=taken_back(context, task, target, made, published.owners),
        shared=may_hold_others(context, task, published.owners),
    )


def settle_passed(
    context: RunContext, task: Task, target: Target, tokens: Sequence[SliceToken], mine: str | None = None
) -> list[str]:
    """Close the open attempts whose generation the target has passed: they landed, or they must lose, or the log has
    forgotten which. The same for those that were given up with rows still staged: a process thought dead may land
    after that.

    An attempt whose generation is not passed stays open: it may be dead, or slow and about to land. One whose process
    is seen to be gone is given up like by `recover`, with its rows still staged: what it had begun may land after that,
    and a later look finds it. One that stopped reporting before its look knew no generation and staged nothing; if it
    wakes, the ledger stops it.
    """
    notes: list[str] = []
    names = {token.label: token.name for token in tokens}
    attempts = [each for each in _undecided(context.ledger, task.name, tuple(names)) if each.id != mine]
    generations = held_since(task, target, tokens, attempts)
    for attempt in attempts:
        passed = passed_at(attempt, generations)
        if passed is None:
            if attempt.state.open:
                _give_up(context.ledger, attempt)
            continue
        label, generation = passed
        note = target.provenance(task.target, names[label], generation)
        if note is not None and note.attempt == attempt.id:
            record_landed(context, task, attempt, note)
            if task.write.kind == "upsert":
                # What it had staged and did not need: it died before it could tidy up. VACUUM has what stays.
                with suppress(Exception):
                    target.discard(task.target, attempt.id, (WHOLE,))
            notes.append(f"attempt {attempt.id[:8]} had published without reporting back; it is recorded now")
        elif note is None and (aims := _may_have_published(context.ledger, task, attempt, generations)):
            notes.extend(_leave_unknown(context, task, attempt, aims))
        else:
            context.ledger.close_attempt(attempt.id, AttemptState.SUPERSEDED)
    return notes


def settle_undecided(context: RunContext, task: Task, session: Any) -> None:
    """The same for all attempts of a task, whoever asks: after it the ledger knows every publish of theirs that was in
    the table before the call. The table is asked only where there is one. Dying in here leaves the rest to the next
    look."""
    attempts = (*context.ledger.open_attempts(task.name), *context.ledger.undiscarded(task.name))
    labels = sorted({each.label for attempt in attempts for each in attempt.slices if each.expected is not None})
    if labels:
        names = {label: token_name(context.project.id, task.first_name, label) for label in labels}
        target = context.target_of(task.target, context.engine.fresh() if session is None else session)
        held = target.published(task.target, tuple(names.values())).generations
        settle_passed(context, task, target, [SliceToken(name, label, held[name]) for label, name in names.items()])


def _may_have_published(
    ledger: RunLedger, task: Task, attempt: AttemptRecord, generations: Mapping[str, int]
) -> dict[str, int]:
    """Of an attempt whose commit is not in the log: what it may have published, since the table has come to where it
    aimed, and neither the log nor the ledger knows by whom. All its slices were in one commit. Nothing, if it had not
    begun to commit, or the target's word on it is known. A mark that was passed over may never have been anybody's."""
    if attempt.state not in (AttemptState.PUBLISHING, AttemptState.ABANDONED):
        return {}
    runs = ledger.runs_of(task.name, [slice_.label for slice_ in attempt.slices])
    known = {label: run.generation for label, run in runs.items()}
    aims = {each.label: aim_of(each.expected, each.aim) for each in attempt.slices if each.expected is not None}
    aims = {label: aim for label, aim in aims.items() if known.get(label, 0) != aim}
    held = [(generations[label], aim) for label, aim in aims.items() if label in generations]
    counted = not isinstance(task.scope, Since)
    return aims if any(there == aim or (counted and there > aim) for there, aim in held) else {}


def _leave_unknown(context: RunContext, task: Task, attempt: AttemptRecord, aims: Mapping[str, int]) -> list[str]:
    """Nobody can say whether it published these: its effects are not sent by themselves, and not written off: whether
    they go out, a person decides. The same as of a publish that the ledger has missed and the log forgot.

    Dying in here leaves the attempt to the next look, which finds its effects unknown already.
    """
    forget_effects(context, task, aims)
    label, aim = next(iter(aims.items()))
    note = (
        f"the table's log has forgotten who published {version_text(aim)} of {label}: it may have been attempt "
        f"{attempt.id[:8]}, which did not report back"
    )
    note += "; its effects are unknown, and sent only if a person says so" if task.effects else ""
    closed = context.ledger.close_attempt(attempt.id, AttemptState.ABANDONED, Facts(notes=(note,)))
    return [note] if closed else []


def held_since(
    task: Task, target: Target, tokens: Sequence[SliceToken], attempts: Sequence[AttemptRecord]
) -> dict[str, int]:
    """The generations by label, read no earlier than these attempts were listed: one that looked after we did may
    expect what was published in between, and is not passed."""
    held = {token.label: token.generation for token in tokens}
    if all(passed_at(attempt, held) is None for attempt in attempts):
        return held
    again = target.published(task.target, [token.name for token in tokens]).generations
    return {token.label: again[token.name] for token in tokens}


def _fence(context: RunContext, task: Task, target: Target, tokens: Sequence[SliceToken]) -> None:
    """Delete what passed attempts have staged, where a slice may be again at the generation they expect: a mark that
    was reset, an older copy of the table that is published upon. A slow one would land there what it read before.
    Everybody looks before it moves a token, so a process that wakes after the token has come back finds its rows gone.

    Raises what is in its way: nothing is published then. Dying in here leaves the rest to the next look.
    """
    labels = {token.label for token in tokens}
    left = [each for each in context.ledger.undiscarded(task.name) if labels & {one.label for one in each.slices}]
    generations = held_since(task, target, tokens, left)
    for attempt in left:
        if passed_at(attempt, generations) is not None and _may_come_back(task, attempt, generations):
            target.discard(task.target, attempt.id, (WHOLE,))
            context.ledger.discarded(attempt.id)


def _may_come_back(task: Task, attempt: AttemptRecord, generations: Mapping[str, int]) -> bool:
    return isinstance(task.scope, Since) or any(
        slice_.expected is not None and generations.get(slice_.label, slice_.expected) < slice_.expected
        for slice_ in attempt.slices
    )


def _give_up(ledger: RunLedger, attempt: AttemptRecord) -> None:
    if attempt.never_looked:
        if stopped_reporting(ledger, attempt):
            ledger.abandon_unlooked(attempt.id)
    elif is_gone(attempt.holder):
        ledger.close_attempt(attempt.id, AttemptState.ABANDONED)


def _undecided(ledger: AttemptHistory, task: str, labels: tuple[str, ...]) -> list[AttemptRecord]:
    """Attempts on these slices that may have landed without reporting back, oldest first: the open ones, and those
    closed without a publish whose staged rows were never deleted."""
    wanted = set(labels)
    given_up = (a for a in ledger.undiscarded(task) if any(slice_.label in wanted for slice_ in a.slices))
    return sorted((*ledger.open_attempts(task, labels), *given_up), key=lambda attempt: attempt.fence)


def passed_at(attempt: AttemptRecord, generations: Mapping[str, int]) -> tuple[str, int] | None:
    """The first slice whose generation moved away from what the attempt expected, with the one it aimed at. Back counts
    too: a mark that was reset, an older copy of the table.

    One is enough: a commit needs every token at its expected generation.
    """
    for slice_ in attempt.slices:
        held = generations.get(slice_.label)
        if held is None or slice_.expected is None:
            continue
        # The second: a mark that was set for another cursor where it stood.
        if held != slice_.expected or held == aim_of(slice_.expected, slice_.aim):
            return slice_.label, aim_of(slice_.expected, slice_.aim)
    return None


def stopped_reporting(ledger: Claims, attempt: AttemptRecord) -> bool:
    """Of an open one: its process is seen to be gone, or its lease ran out (also if another has it since)."""
    return attempt.lease_until is None or attempt.lease_until < ledger.now() or is_gone(attempt.holder)


def attempts_not_reporting(ledger: RunLedger, task: str | None) -> frozenset[str]:
    """The open attempts that no process works on."""
    return frozenset(attempt.id for attempt in ledger.open_attempts(task) if stopped_reporting(ledger, attempt))


def _went_back(context: RunContext, task: Task, target: Target, token: SliceToken, recorded: int) -> str:
    """A reset of the mark may be recorded late, or not at all."""
    label, generation = token.label, token.generation
    context.ledger.forget(task.name, label)
    note = target.provenance(task.target, token.name, generation) if generation else None
    if note is not None and note.kind == "reset":
        return (
            f"the mark of {label} was reset: the table holds {version_text(generation)} where {version_text(recorded)} "
            "was published"
        )
    return (
        f"the table holds {version_text(generation)} of {label} where {version_text(recorded)} was published: "
        "it was recreated, or replaced by an older copy"
    )


def _exchanged(context: RunContext, task: Task, run: RunRecord, maker: str) -> str:
    """Dying after it leaves nothing remembered of the slice: the next look asks the table."""
    context.ledger.forget(task.name, run.label)
    return (
        f"{version_text(run.generation)} of {run.label} is attempt {maker[:8]}'s in the table and "
        f"{str(run.attempt)[:8]}'s in the ledger: this is another table than the one that was published to"
    )
