"""The last two steps: data and tokens land together, then the ledger hears of it. The first to land wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twice.core.failpoints import Point, hit
from twice.core.interruption import BrokenOff, behind
from twice.core.ports import Landed, Lost
from twice.core.record import Facts
from twice.core.run import AttemptState, Outcome, RunResult, SliceResult
from twice.core.since import told
from twice.core.token import Note
from twice.core.write import Changes
from twice.errors import MAY_HOLD, OutcomeUnknown, Superseded
from twice.runtime.attempt import Attempt, Ready, ended, telling_line
from twice.runtime.collect import collect_passed
from twice.runtime.effects import to_say
from twice.runtime.landing import Known, find_landed
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
    end = _commit(attempt, ready, expected, note)
    if isinstance(end, Landed):
        changes = None if end.changes is None else replace(end.changes, deduplicated=ready.staged.deduplicated)
        end = replace(end, changes=changes)
        facts = Facts(version=end.version, changes=changes)
        attempt.landing.landed(facts, ready.found.aims)
    else:
        attempt.landing.known = Known.NOT_LANDED
    return end


def _commit(attempt: Attempt, ready: Ready, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """Whatever is raised once the commit was begun, the table is asked what is true: an error after it landed is no
    failure of the run. Where the table cannot be asked, or the commit may still be on its way, the outcome is unknown,
    and nothing of the attempt is given up."""
    landing = attempt.landing
    landing.known = Known.UNKNOWN
    try:
        return attempt.target.commit(ready.staged, expected, note)
    except (Exception, KeyboardInterrupt) as error:
        if behind(error, OutcomeUnknown, BrokenOff) is not None:
            raise
        interrupt = behind(error, KeyboardInterrupt)
        landed = _asked(attempt, note, interrupt or error)
        if landed is None:
            landing.known = Known.NOT_LANDED
            raise
        landing.landed(Facts(version=landed.version, changes=landed.changes), ready.found.aims)
        if interrupt is not None:
            raise
        attempt.notes.append(f"published, and then {type(error).__name__}: {telling_line(error)}")
        return landed


def finish(attempt: Attempt, ready: Ready, end: Landed | Lost) -> RunResult:
    """Close the ledger. Dying in here leaves it behind the target; the next look brings it up."""
    if isinstance(end, Lost):
        return _lose(attempt, ready, end)
    generations = ready.found.aims
    changed = _changed(attempt, ready, end)
    outcome = _outcome(attempt, ready, end.changes, changed)
    facts = Facts(version=end.version, notes=tuple(attempt.notes), seconds=attempt.trace.seconds, changes=end.changes)
    attempt.landing.landed(facts, generations)
    attempt.landing.record()
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
    result = ended(attempt, outcome, slices, ready.why, end.version, ready.audits)
    window = ready.window
    return replace(
        result, changes=end.changes, mark=told(window.high) if window else None, more=window is not None and window.more
    )


def _asked(attempt: Attempt, note: Note, error: BaseException) -> Landed | None:
    """Whatever stops us from reading the table, we do not know."""
    try:
        return find_landed(attempt.target, attempt.task.target, note.generations, attempt.id)
    except Exception as silent:
        if isinstance(error, KeyboardInterrupt):
            raise error from silent
        raise OutcomeUnknown(
            f"{type(error).__name__} while it was being published, and the table cannot be read: "
            f"{telling_line(silent)}",
            now=MAY_HOLD,
            fix="Run it again: it will look first.",
        ) from error


def _tidy_up(attempt: Attempt) -> None:
    """After what others have left on these slices. The run has ended well by now: what cannot be tidied up is left to
    the next run, and noted."""
    try:
        collect_passed(attempt.shop, attempt.task, attempt.target, attempt.plan)
    except Exception as error:  # noqa: BLE001 - see above
        attempt.notes.append(f"what dead attempts have left could not be deleted: {telling_line(error)}")


def _changed(attempt: Attempt, ready: Ready, end: Landed) -> dict[str, bool | None]:
    """By slice, whether a restatement changed its rows: as the target has counted or compared them. Where it has not,
    the table held what the ledger remembers of the last publish, unless others changed it. None: nobody can say."""
    if attempt.kind != "restate":
        return {}
    labels, others = tuple(ready.found.generations), ready.found.others
    same = _same_as_published(attempt, ready)
    if end.changed is not None:
        changed: dict[str, bool | None] = {label: label in end.changed for label in labels}
        others = frozenset(label for label in end.changed if same[label])
    elif end.changes is not None and len(labels) == 1:
        return {labels[0]: _any(end.changes)}
    else:
        changed = {label: None if same[label] is None else not same[label] for label in labels}
        changed |= {label: None for label in ready.found.forgotten if same[label]} | dict.fromkeys(others, True)
    if others and end.changes is None:
        attempt.notes.append(f"what others had changed is replaced: {', '.join(sorted(others))}")
    return changed


def _same_as_published(attempt: Attempt, ready: Ready) -> dict[str, bool | None]:
    """By slice, whether these are the rows of its last publish. None: nobody remembers them."""
    runs = attempt.shop.ledger.runs_of(attempt.task.name, tuple(ready.found.generations))
    before = {label: runs[label].fingerprint if label in runs else None for label in ready.found.generations}
    return {
        label: None if held is None else held == ready.measured[label].fingerprint for label, held in before.items()
    }


def _outcome(attempt: Attempt, ready: Ready, changes: Changes | None, changed: Mapping[str, bool | None]) -> Outcome:
    if attempt.kind != "restate" or not all(ready.found.generations.values()):
        return Outcome.PUBLISHED
    if changes is not None:
        return Outcome.CHANGED if _any(changes) else Outcome.IDENTICAL
    if any(changed.values()):
        return Outcome.CHANGED
    unknown = [label for label, each in changed.items() if each is None]
    if unknown:
        attempt.notes.append(f"nobody remembers what {', '.join(unknown)} held: it cannot be compared")
        return Outcome.PUBLISHED
    return Outcome.IDENTICAL


def _any(changes: Changes) -> bool:
    return bool(changes.inserted or changes.updated or changes.deleted)


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
    theirs = [note.intentions.get(app) if note else None for note, app in zip(notes, attempt.plan.app_ids, strict=True)]
    known = [intention for intention in theirs if intention is not None]
    if len(known) < len(theirs):
        return ended(attempt, Outcome.UNKNOWN, slices, f"{won_by} published first", published.version)
    ours = ready.computed.intentions.values()
    if all(mine.same_as(intention) for mine, intention in zip(ours, known, strict=True)):
        return ended(attempt, Outcome.ALREADY, slices, f"published by {won_by}", published.version)
    unknown = all(mine == intention for mine, intention in zip(ours, known, strict=True))
    how = "and it cannot be shown that it read the same inputs" if unknown else "with other code or other inputs"
    raise Superseded(
        f"another attempt ({won_by}) published first, {how}",
        where=attempt.where,
        now="The table holds the other attempt's rows.",
        fix=f"Compare with twice history {attempt.task.name}; to publish yours, run again.",
    )
