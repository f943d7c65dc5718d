"""The last two steps: data and tokens land together, then the ledger hears of it. The first to land wins."""

from __future__ import annotations

from dataclasses import replace

from twice.core.failpoints import Point, hit
from twice.core.ports import Landed, Lost
from twice.core.record import Facts
from twice.core.run import AttemptState, Outcome, RunResult, SliceResult
from twice.core.since import told
from twice.core.token import Note
from twice.errors import Superseded
from twice.runtime.attempt import Attempt, Ready, ended
from twice.runtime.collect import collect_passed
from twice.runtime.effects import to_say
from twice.runtime.lease import Heartbeat
from twice.runtime.settle import look


def publish(attempt: Attempt, ready: Ready, heartbeat: Heartbeat) -> Landed | Lost:
    """Compare-and-swap at the target, for the generations fixed at look.

    The intent, with the effects that speak of it, is in the ledger before the commit begins: whoever comes after a
    crash in here asks the target.
    """
    heartbeat.check(attempt.where)
    effects = Facts(effects=to_say(attempt, ready))
    attempt.shop.ledger.advance(attempt.claim, AttemptState.AUDITED, AttemptState.PUBLISHING, effects)
    hit(Point.PUBLISHING)
    expected = {attempt.apps[label]: generation for label, generation in ready.found.generations.items()}
    note = Note(
        attempt.id,
        attempt.kind,
        {attempt.apps[label]: aim for label, aim in ready.found.aims.items()},
        {attempt.apps[label]: intention for label, intention in ready.computed.intentions.items()},
    )
    return attempt.target.commit(ready.staged, expected, note)


def finish(attempt: Attempt, ready: Ready, end: Landed | Lost) -> RunResult:
    """Close the ledger. Dying in here leaves it behind the target; the next look brings it up."""
    if isinstance(end, Lost):
        return _lose(attempt, ready, end)
    outcome = _outcome(attempt, ready)
    generations = ready.found.aims
    changes = None if end.changes is None else replace(end.changes, deduplicated=ready.staged.deduplicated)
    facts = Facts(version=end.version, notes=tuple(attempt.notes), seconds=attempt.trace.seconds, changes=changes)
    attempt.shop.ledger.publish(attempt.id, facts, generations=generations)
    hit(Point.AFTER_FINISH)
    collect_passed(attempt.shop, attempt.task, attempt.target, attempt.plan)
    slices = tuple(
        SliceResult(label, generation, ready.measured[label].rows, ready.measured[label].fingerprint)
        for label, generation in generations.items()
    )
    result = ended(attempt, outcome, slices, ready.why, end.version, ready.audits)
    window = ready.window
    return replace(
        result, changes=changes, mark=told(window.high) if window else None, more=window is not None and window.more
    )


def _outcome(attempt: Attempt, ready: Ready) -> Outcome:
    """A restated slice is compared with what the ledger remembers of its last publish."""
    if attempt.kind != "restate" or not all(ready.found.generations.values()):
        return Outcome.PUBLISHED
    runs = attempt.shop.ledger.runs_of(attempt.task.name, tuple(ready.found.generations))
    for label in ready.found.generations:
        run = runs.get(label)
        if run is None or run.fingerprint is None:
            attempt.notes.append(f"nobody remembers the fingerprint of {label}: it cannot be compared")
            return Outcome.PUBLISHED
        if run.fingerprint != ready.measured[label].fingerprint:
            return Outcome.CHANGED
    return Outcome.IDENTICAL


def _lose(attempt: Attempt, ready: Ready, end: Lost) -> RunResult:
    """Read who won. The same intention is as good as ours; another one is told."""
    attempt.discard()
    published = end.published
    notes = [
        attempt.target.provenance(attempt.task.target, app, published.generations[app]) for app in attempt.plan.app_ids
    ]
    won_by = ", ".join(dict.fromkeys(note.attempt[:8] for note in notes if note is not None)) or "another attempt"
    look(attempt.shop, attempt.task, attempt.plan, attempt.target, attempt.id)
    facts = Facts(notes=(*attempt.notes, f"{won_by} published first"), seconds=attempt.trace.seconds)
    attempt.shop.ledger.close_attempt(attempt.id, AttemptState.SUPERSEDED, facts)
    slices = tuple(SliceResult(label, published.generations[app]) for label, app in attempt.apps.items())
    held = [note and note.intentions.get(app) for note, app in zip(notes, attempt.plan.app_ids, strict=True)]
    if any(intention is None for intention in held):
        return ended(attempt, Outcome.UNKNOWN, slices, f"{won_by} published first", published.version)
    if all(intention == ours for intention, ours in zip(held, ready.computed.intentions.values(), strict=True)):
        return ended(attempt, Outcome.ALREADY, slices, f"published by {won_by}", published.version)
    raise Superseded(
        f"another attempt ({won_by}) published first, with other code or other inputs",
        where=attempt.where,
        now="The table holds the other attempt's rows.",
        fix=f"Compare with twice history {attempt.task.name}; to publish yours, run again.",
    )
