"""The last two steps: data and tokens land together, then the ledger records it. The first to land wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twice.core.failure.failpoints import Point, hit
from twice.core.failure.root_cause import cause_line
from twice.core.hints import command, hint
from twice.core.ledger.record import AttemptState, Facts
from twice.core.ports import Landed, Lost, Published
from twice.core.results.run import Outcome, RunResult, SliceResult
from twice.core.since import Since, mark_text
from twice.core.table.token import CommitNote, Kind
from twice.core.write import Changes
from twice.errors import Superseded, TableChanged
from twice.runtime.run.attempt import Attempt, StagedRun, ended
from twice.runtime.run.commit import commit
from twice.runtime.run.lease import Heartbeat
from twice.runtime.run.send_effects import effects_to_prepare
from twice.runtime.table.garbage import remove_passed
from twice.runtime.table.settle import look
from twice.runtime.table.stored_mark import task_cursor
from twice.runtime.table.watched import only_watched_moved, still_ours

_WITHOUT_ROWS: Mapping[Kind, tuple[str, str]] = {
    "reset": ("the mark was reset meanwhile", "Run it again: it continues from where the mark is now."),
    "adopt": ("the slice was declared published meanwhile", "Look with twice status; restate computes it again."),
    "takeover": ("the table was taken over meanwhile", "Run it again: it looks first whose the table is."),
}
"""Commits of tokens alone: what a run that lost to one says, and what is to be done."""

_TRIES = 3
"""How often a run commits while others come first under its own cut."""


def publish(attempt: Attempt, ready: StagedRun, heartbeat: Heartbeat) -> Landed | Lost:
    """Compare-and-swap at the target, for the generations fixed at look.

    The intent, with its effects, is in the ledger before the commit begins: whoever comes after a
    crash in here asks the target.
    """
    heartbeat.check(attempt.where)
    effects = Facts(effects=effects_to_prepare(attempt, ready))
    attempt.context.ledger.advance(attempt.claim, AttemptState.AUDITED, AttemptState.PUBLISHING, effects)
    hit(Point.PUBLISHING)
    expected = {attempt.token_names[label]: generation for label, generation in ready.found.generations.items()}
    project, task, scope = attempt.context.project, attempt.task, attempt.task.scope
    note = CommitNote(
        attempt.id,
        attempt.kind,
        {attempt.token_names[label]: aim for label, aim in ready.found.aims.items()},
        {attempt.token_names[label]: intention for label, intention in ready.computed.intentions.items()},
        cursor=task_cursor(project, task, scope) if isinstance(scope, Since) else None,
        beside=ready.found.cut.move,
    )
    end = _commit_watching(attempt, ready, expected, note)
    attempt.notes.extend(attempt.landing.facts.notes)
    return end


def _commit_watching(
    attempt: Attempt, ready: StagedRun, expected: Mapping[str, int], note: CommitNote
) -> Landed | Lost:
    """The commit, and once more where only the token of the task's cut moved, and to this very cut: of two that come
    first under a cut both publish. Raises Superseded if the table was taken over or cut differently since the look.
    Dying between two commits has published nothing."""
    watched = ready.found.watched
    for _ in range(_TRIES):
        end = commit(attempt.landing, attempt.target, ready.staged, {**expected, **watched}, note)
        if not isinstance(end, Lost) or not only_watched_moved(end, expected):
            return end
        watched, move = still_ours(attempt.context, attempt.task, attempt.plan, attempt.target, ready.found.watched)
        note = replace(note, beside=move)
    raise TableChanged("other runs changed the table while this one tried to publish", fix="Run the task again.")


def finish(attempt: Attempt, ready: StagedRun, end: Landed | Lost) -> RunResult:
    """Close the ledger. Dying in here leaves it behind the target; the next look brings it up."""
    if isinstance(end, Lost):
        return _lose(attempt, ready, end)
    generations = ready.found.aims
    changed = _changed(attempt, ready, end)
    outcome = _outcome(attempt, ready, end.changes, changed)
    attempt.notes.extend(ready.found.others.notes(attempt.task, published=True))
    facts = replace(attempt.landing.facts, notes=tuple(attempt.notes), seconds=attempt.trace.seconds)
    attempt.landing.landed(facts, generations)
    attempt.landing.record()
    attempt.landing.remove_unused()
    hit(Point.AFTER_FINISH)
    _tidy_up(attempt)
    slices = tuple(
        SliceResult(
            label,
            generation,
            ready.measured[label].rows,
            ready.measured[label].fingerprint,
            changed=changed.get(label),
        )
        for label, generation in generations.items()
    )
    result = ended(attempt, outcome, slices, ready.why, end.version)
    window = ready.window
    return replace(
        result,
        audits=ready.audits,
        changes=end.changes,
        mark=mark_text(window.high) if window else None,
        more=window is not None and window.more,
    )


def _tidy_up(attempt: Attempt) -> None:
    """After what others have left on these slices. The run has ended well by now: what cannot be tidied up is left to
    the next run, and noted."""
    try:
        labels = tuple(slice_.label for slice_ in attempt.plan.slices)
        remove_passed(attempt.context, attempt.task, attempt.target, labels)
    except Exception as error:  # noqa: BLE001 - see above
        attempt.notes.append(f"files of dead attempts could not be deleted: {cause_line(error)}")


def _changed(attempt: Attempt, ready: StagedRun, end: Landed) -> dict[str, bool | None]:
    """By slice, whether a restatement changed its rows: as the target has counted or compared them. Where it has not,
    the table held what the ledger remembers of the last publish, unless others changed it. None: it is not known."""
    if attempt.kind != "restate":
        return {}
    labels, others = tuple(ready.found.generations), ready.found.others.labels
    same = _same_as_published(attempt, ready)
    if end.changed is not None:
        changed: dict[str, bool | None] = {label: label in end.changed for label in labels}
        others = frozenset(label for label in end.changed if same[label])
    elif end.changes is not None and len(labels) == 1:
        return {labels[0]: _any(end.changes)}
    else:
        changed = {label: None if same[label] is None else not same[label] for label in labels}
        changed |= {label: None for label in ready.found.others.forgotten if same[label]} | dict.fromkeys(others, True)
    unseen = sorted(others - ready.found.others.labels)
    if unseen and end.changes is None:
        attempt.notes.append(f"what others had changed is replaced: {', '.join(unseen)}")
    return changed


def _same_as_published(attempt: Attempt, ready: StagedRun) -> dict[str, bool | None]:
    """By slice, whether these are the rows of its last publish. None: there is no record of them, or others
    may have overwritten them since."""
    believed = [label for label in ready.found.generations if label not in ready.found.overwritten]
    runs = attempt.context.ledger.runs_of(attempt.task.name, believed)
    before = {label: runs[label].fingerprint if label in runs else None for label in ready.found.generations}
    return {
        label: None if held is None else held == ready.measured[label].fingerprint for label, held in before.items()
    }


def _outcome(
    attempt: Attempt, ready: StagedRun, changes: Changes | None, changed: Mapping[str, bool | None]
) -> Outcome:
    if attempt.kind != "restate" or not all(ready.found.generations.values()):
        return Outcome.PUBLISHED
    if changes is not None:
        return Outcome.CHANGED if _any(changes) else Outcome.IDENTICAL
    if any(changed.values()):
        return Outcome.CHANGED
    unknown = [label for label, each in changed.items() if each is None]
    if unknown:
        attempt.notes.append(f"there is no record of what {', '.join(unknown)} held: it cannot be compared")
        return Outcome.PUBLISHED
    return Outcome.IDENTICAL


def _any(changes: Changes) -> bool:
    return bool(changes.inserted or changes.updated or changes.deleted)


def _lose(attempt: Attempt, ready: StagedRun, end: Lost) -> RunResult:
    """Read who won. The same intention is as good as ours; another one is an error. Who moved the tokens and wrote no
    row has published nothing instead of us."""
    attempt.discard()
    published = end.published
    notes = [
        attempt.target.provenance(attempt.task.target, name, published.generations[name])
        for name in attempt.plan.token_names
    ]
    found = look(attempt.context, attempt.task, attempt.plan, attempt.target, attempt.id)
    attempt.notes.extend(found.others.notes(attempt.task, published=False))
    without_rows = next((note for note in notes if note is not None and note.kind in _WITHOUT_ROWS), None)
    how_lost = f"{_winner(notes)} published first" if without_rows is None else _WITHOUT_ROWS[without_rows.kind][0]
    facts = Facts(notes=(*attempt.notes, how_lost), seconds=attempt.trace.seconds)
    attempt.context.ledger.close_attempt(attempt.id, AttemptState.SUPERSEDED, facts)
    if without_rows is not None:
        raise Superseded(
            f"{how_lost} (attempt {without_rows.attempt[:8]})",
            where=attempt.where,
            now="None of this run's rows are in the table.",
            fix=_WITHOUT_ROWS[without_rows.kind][1],
        )
    return _compare_winner(attempt, ready, published, notes)


def _compare_winner(
    attempt: Attempt, ready: StagedRun, published: Published, notes: Sequence[CommitNote | None]
) -> RunResult:
    """Whether what another attempt published is what this one would have."""
    won_by = _winner(notes)
    slices = tuple(SliceResult(label, published.generations[name]) for label, name in attempt.token_names.items())
    theirs = [
        note.intentions.get(name) if note else None for note, name in zip(notes, attempt.plan.token_names, strict=True)
    ]
    known = [intention for intention in theirs if intention is not None]
    if len(known) < len(theirs):
        return ended(attempt, Outcome.UNKNOWN, slices, f"{won_by} published first", published.version)
    ours = ready.computed.intentions.values()
    if all(mine.same_as(intention) for mine, intention in zip(ours, known, strict=True)):
        return ended(attempt, Outcome.ALREADY, slices, f"published by {won_by}", published.version)
    unknown = all(
        mine == intention or (mine.code == intention.code and intention.inputs is None)
        for mine, intention in zip(ours, known, strict=True)
    )
    how = "and it cannot be shown that it read the same inputs" if unknown else "with other code or other inputs"
    raise Superseded(
        f"another attempt ({won_by}) published first, {how}",
        where=attempt.where,
        now="The table holds the other attempt's rows.",
        fix=hint("Compare with {}; to publish yours, run again.", command("history", attempt.task.name)),
    )


def _winner(notes: Sequence[CommitNote | None]) -> str:
    return ", ".join(dict.fromkeys(note.attempt[:8] for note in notes if note is not None)) or "another attempt"
