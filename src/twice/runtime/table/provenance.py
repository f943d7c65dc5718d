"""What was a published slice made from? As the ledger records, else as its commit does, and then the ledger learns it.
A publish that it did not see is recorded as this ledger's own attempt's, or adopted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.outbox import PublishedGeneration, prepare
from twice.core.ledger.record import AttemptRecord, AttemptState, Facts, RunRecord, SliceRecord, aim_of
from twice.core.ports import Target
from twice.core.table.token import CommitNote, Intention, SliceToken, token_name
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.table.same_table import made_by_others

_BEFORE_COMMIT = (AttemptState.CLAIMED, AttemptState.STAGED, AttemptState.AUDITED)


@dataclass(frozen=True)
class Provenance:
    """What a published slice was made from, and the version of its commit; None where there is no record."""

    intention: Intention | None = None
    version: int | None = None


def provenance_of(context: RunContext, task: Task, target: Target, token: SliceToken) -> Provenance:
    """Of a published generation, as the ledger or its commit records it. Changes nothing."""
    known = context.ledger.runs_of(task.name, [token.label])
    run, others = known.get(token.label), made_by_others(context, task, target, [token], known)
    if run is not None and run.generation == token.generation and not others:
        return Provenance(run.intention, run.version)
    note = target.provenance(task.target, token.name, token.generation) if token.generation else None
    return Provenance(note.intentions.get(token.name), note.version) if note else Provenance()


def catch_up(context: RunContext, task: Task, target: Target, token: SliceToken, known: RunRecord | None) -> Provenance:
    """What the slice was published from; the ledger learns what it did not know. At which version is asked of the
    commit itself: what others did after it must stay in sight. Dying in here leaves the rest to the next look."""
    label, generation = token.label, token.generation
    if known is not None and known.generation == generation:
        return Provenance(known.intention, known.version)
    if not generation:
        return Provenance()
    note = target.provenance(task.target, token.name, generation)
    intention = note.intentions.get(token.name) if note else None
    attempt, version = (note.attempt, note.version) if note else (None, None)
    if note and note.kind == "takeover":
        # It has no effects of its own: those that this ledger may not know of are of the publish below it.
        below = replace(token, generation=generation - 1)
        catch_up(context, task, target, below, _of_this_table(task, target, below, known))
        context.ledger.record_found(task.name, [FoundPublish(label, generation, attempt, version=version)])
        return Provenance(None, version)
    if note and note.kind == "adopt":
        # Nothing was ever sent for it, and nothing is: it was there before twice.
        context.ledger.record_found(task.name, [FoundPublish(label, generation, attempt, intention, version)])
        return Provenance(intention, version)
    # Of this very table: one that was copied with its log names the attempts of the table it was copied from.
    ours = context.ledger.attempt(attempt, task.name) if attempt else None
    if note and ours is not None and ours.state is not AttemptState.PUBLISHED and not ours.never_looked:
        # Written off, its rows deleted as far as anybody knew, and there it is: its effects are sent.
        record_landed(context, task, ours, note)
        return Provenance(intention, version)
    # Recorded once and forgotten since: an older copy of the table was put back, or a mark was reset.
    published = ours.slices if ours is not None and ours.state is AttemptState.PUBLISHED else ()
    recorded = next((slice_ for slice_ in published if slice_.label == label), None)
    if recorded is None:
        forget_effects(context, task, {label: generation})
    rows, fingerprint = (recorded.rows, recorded.fingerprint) if recorded else (None, None)
    context.ledger.record_found(
        task.name, [FoundPublish(label, generation, attempt, intention, version, rows, fingerprint)]
    )
    return Provenance(intention, version)


def _of_this_table(task: Task, target: Target, token: SliceToken, known: RunRecord | None) -> RunRecord | None:
    """What is remembered of a generation, unless the table says that another attempt made it."""
    if known is None or known.generation != token.generation or known.attempt is None:
        return known
    note = target.provenance(task.target, token.name, token.generation, at=known.version)
    return known if note is None or note.attempt == known.attempt else None


def record_landed(context: RunContext, task: Task, attempt: AttemptRecord, note: CommitNote) -> None:
    """The target says, by the note of its commit, that the attempt landed; its own process died before it could record
    that. Who commits has recorded before that it is about to, with its effects: a ledger without such a record was put
    back to an earlier state, and what was sent since is unknown."""
    generations = {
        slice_.label: aim_of(slice_.expected, slice_.aim) for slice_ in attempt.slices if slice_.expected is not None
    }
    if attempt.state in _BEFORE_COMMIT:
        forget_effects(context, task, generations)
    # As the commit itself records, also where more was known before it: only the write shows whether rows were
    # displaced.
    learnt = tuple(
        SliceRecord(
            slice_.label, intention=note.intentions.get(token_name(context.project.id, task.first_name, slice_.label))
        )
        for slice_ in attempt.slices
    )
    facts = Facts(slices=learnt, version=note.version, changes=note.changes)
    context.ledger.publish(attempt.id, facts, generations=generations)


def forget_effects(context: RunContext, task: Task, generations: Mapping[str, int]) -> None:
    """Effects of a publish that this ledger did not see may have been sent: they are not sent again.
    Before they are adopted: dying in between leaves the rest to the next look."""
    owner = context.ledger.owner.effect_owner(task.name)
    unknown = [
        prepare(owner, task.first_name, effect, PublishedGeneration(label, generation))
        for label, generation in generations.items()
        for effect in task.effects
    ]
    if unknown:
        context.ledger.outbox.remember_unknown(task.name, unknown)
