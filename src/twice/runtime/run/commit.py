"""One commit at the target, and what is true of it however the call ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twice.core.failure.failpoints import Crash
from twice.core.failure.interruption import BrokenOff, behind, being_handled, interruption
from twice.core.failure.root_cause import cause_line
from twice.core.ledger.record import Facts, SliceRecord
from twice.core.ports import Landed, Lost, Staged, Target
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import Changes, UpsertRows
from twice.errors import OutcomeUnknown
from twice.runtime.run.landing import LOOKS_FIRST, Known, Landing


def commit(
    landing: Landing, target: Target, staged: Staged, expected: Mapping[str, int], note: CommitNote
) -> Landed | Lost:
    """Compare-and-swap, for the generations of the note; `landing` knows how it ended, the ledger does not yet.

    Whatever is raised once the commit was begun, the table is asked what is true: an error after it landed is no
    failure, but a note of what landed. Where the table cannot be asked, or the commit may still be on its way, the
    outcome is unknown, and nothing of the attempt is given up.
    """
    landing.known = Known.UNKNOWN
    names = zip(staged.plan.token_names, staged.plan.slices, strict=True)
    aims = {slice_.label: note.generations[name] for name, slice_ in names}
    before = being_handled()
    try:
        end = target.commit(staged, expected, note)
    except BaseException as error:
        if isinstance(error, Crash):
            raise
        if behind(error, OutcomeUnknown, BrokenOff, before=before) is not None:
            raise
        interrupt = interruption(error, before)
        landed = _asked(landing, target, staged.table, note, interrupt or error)
        if landed is None:
            landing.known = Known.NOT_LANDED
            raise
        landed = _counted(landed, staged)
        notes = (
            () if interrupt else (f"{landing.wording.landed}, and then {type(error).__name__}: {cause_line(error)}",)
        )
        landing.landed(_facts(landed, staged, note, notes), aims)
        landing.unused = lambda: target.discard(staged.table, staged.attempt, staged.plan.file_slices)
        if interrupt is not None:
            raise
        return landed
    if isinstance(end, Lost):
        landing.known = Known.NOT_LANDED
        return end
    end = _counted(end, staged)
    landing.landed(_facts(end, staged, note), aims)
    return end


def find_landed(target: Target, table: TableName, note: CommitNote) -> Landed | None:
    """Ask the table whether the commit with this note is in it. Only a commit that has ended may be asked about: None
    then means never. Raises what stops it from reading."""
    name, aim = next(iter(note.generations.items()))
    found = target.provenance(table, name, aim)
    if found is None or found.attempt != note.attempt:
        return None
    assert found.version is not None, name
    return Landed(found.version, found.changes, found.changed)


def _asked(landing: Landing, target: Target, table: TableName, note: CommitNote, error: BaseException) -> Landed | None:
    """Whatever stops us from reading the table, we do not know."""
    try:
        return find_landed(target, table, note)
    except Exception as unread:
        if interruption(error) is error:
            raise error from unread
        raise OutcomeUnknown(
            f"{type(error).__name__} while {landing.wording.doing}, and the table cannot be read: {cause_line(unread)}",
            now=landing.wording.may_hold,
            fix=LOOKS_FIRST,
        ) from error


def _facts(landed: Landed, staged: Staged, note: CommitNote, notes: tuple[str, ...] = ()) -> Facts:
    """What the ledger records of it. Where rows were displaced by those of other slices, as in the table: without the
    inputs, so that the slice is computed again once these have run."""
    facts = Facts(version=landed.version, changes=landed.changes, notes=notes)
    verb, changes = staged.plan.write, landed.changes
    if not isinstance(verb, UpsertRows) or not verb.may_be_displaced or (changes is not None and not changes.elsewhere):
        return facts
    unsure = note.without_inputs().intentions
    slices = tuple(
        SliceRecord(slice_.label, intention=unsure[name])
        for name, slice_ in zip(staged.plan.token_names, staged.plan.slices, strict=True)
        if name in unsure
    )
    return replace(facts, slices=slices, notes=(*notes, _displaced_note(changes)))


def _displaced_note(changes: Changes | None) -> str:
    if changes is None:
        return (
            "it is not known whether rows were displaced by newer ones of other slices: the next run computes it again"
        )
    if changes.elsewhere == 1:
        return (
            "1 row was left out: another slice holds a newer row of its key. If that slice should have lost it, run "
            "that slice, then this one again."
        )
    return (
        f"{changes.elsewhere:,} rows were left out: other slices hold newer rows of their keys. If those slices should "
        "have lost them, run those slices, then this one again."
    )


def _counted(landed: Landed, staged: Staged) -> Landed:
    """With the rows that were left out before the target saw them."""
    if landed.changes is None:
        return landed
    return replace(landed, changes=replace(landed.changes, deduplicated=staged.deduplicated))
