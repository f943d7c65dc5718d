"""What became of attempts that did not report back? The target is asked, never guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twice.core.outbox import prepare
from twice.core.ports import Published, Target
from twice.core.record import AttemptRecord, Facts, RunRecord, SliceRecord
from twice.core.run import AttemptState
from twice.core.slice import WHOLE
from twice.core.task import Task
from twice.core.token import Intention
from twice.core.write import Changes, Plan, ReplaceRows, UpsertRows
from twice.ledgers.store import Ledger
from twice.runtime.workshop import Workshop


@dataclass(frozen=True)
class Found:
    """A look at the target: the table's version, each slice's generation and what it was published from.
    `aims`: the generations to publish, once they are fixed."""

    version: int | None
    generations: Mapping[str, int]
    intentions: Mapping[str, Intention | None]
    notes: tuple[str, ...] = ()
    aims: Mapping[str, int] = field(default_factory=dict)


def look(shop: Workshop, task: Task, plan: Plan, target: Target, mine: str | None = None) -> Found:
    """Ask the target what it holds; bring the ledger up to it. A second look changes nothing more. `mine` is the
    attempt that looks: it settles others, never itself.

    Dying here leaves the ledger behind the target, which the next look finds again.
    """
    labels = {app: slice_.label for app, slice_ in zip(plan.app_ids, plan.slices, strict=True)}
    # Before the table: what was recorded then must be there, unless the table itself went back.
    recorded = shop.ledger.runs_of(task.name, tuple(labels.values()))
    published = target.published(task.target, plan.app_ids)
    notes = settle_passed(shop, task, target, labels, published, mine)
    generations = {label: published.generations[app] for app, label in labels.items()}
    for label, generation in generations.items():
        held = _generation(recorded.get(label))
        if held > generation:
            notes.append(_went_back(shop, task, label, held, generation))
    known = shop.ledger.runs_of(task.name, tuple(generations))
    intentions = {
        label: _catch_up(shop, task, target, app, label, generations[label], published.version, known.get(label))
        for app, label in labels.items()
    }
    notes += _changed_by_others(shop, task, target, plan)
    return Found(published.version, generations, intentions, tuple(notes))


def settle_passed(
    shop: Workshop,
    task: Task,
    target: Target,
    labels: Mapping[str, str],
    published: Published,
    mine: str | None = None,
) -> list[str]:
    """Close the open attempts whose generation the target has passed: they landed, or they must lose.

    An attempt whose generation is not passed stays open: it may be dead, or slow and about to land. One that died
    before its look and lost its lease knew no generation and staged nothing; if it wakes, the ledger stops it.
    """
    notes: list[str] = []
    apps = {label: app for app, label in labels.items()}
    for attempt in shop.ledger.open_attempts(task.name, tuple(apps)):
        if attempt.id == mine:
            continue
        passed = passed_at(attempt, {label: published.generations[app] for label, app in apps.items()})
        if passed is None:
            if never_looked(attempt) and lease_ran_out(shop.ledger, attempt):
                shop.ledger.abandon_unlooked(attempt.id)
            continue
        label, generation = passed
        note = target.provenance(task.target, apps[label], generation)
        if note is not None and note.attempt == attempt.id:
            record_landed(shop, attempt, published.version, note.changes)
            if isinstance(task.write.compile(()), UpsertRows):
                # What it had staged and did not need: it died before it could tidy up.
                target.discard(task.target, attempt.id, (WHOLE,))
            notes.append(f"attempt {attempt.id[:8]} had published without reporting back; it is recorded now")
        else:
            shop.ledger.close_attempt(attempt.id, AttemptState.SUPERSEDED)
    return notes


def passed_at(attempt: AttemptRecord, generations: Mapping[str, int]) -> tuple[str, int] | None:
    """The first slice whose generation moved beyond what the attempt expected, with the one it aimed at.

    One is enough: a commit needs every token at its expected generation.
    """
    for slice_ in attempt.slices:
        held = generations.get(slice_.label)
        if held is None or slice_.expected is None:
            continue
        if held > slice_.expected or held == aim_of(slice_):  # the second: a mark that was set back
            return slice_.label, aim_of(slice_)
    return None


def aim_of(slice_: SliceRecord) -> int:
    """The generation it would publish: the next one, unless it was told (an incremental task's mark)."""
    assert slice_.expected is not None, slice_
    return slice_.expected + 1 if slice_.aim is None else slice_.aim


def never_looked(attempt: AttemptRecord) -> bool:
    return all(slice_.expected is None for slice_ in attempt.slices)


def lease_ran_out(ledger: Ledger, attempt: AttemptRecord) -> bool:
    """Also if another attempt has taken the slice over since."""
    return attempt.lease_until is None or attempt.lease_until < ledger.now()


def record_landed(shop: Workshop, attempt: AttemptRecord, version: int | None, changes: Changes | None = None) -> None:
    """The target says the attempt landed; its own process did not live to say so."""
    generations = {slice_.label: aim_of(slice_) for slice_ in attempt.slices if slice_.expected is not None}
    shop.ledger.publish(attempt.id, Facts(version=version, changes=changes), generations=generations)


def _generation(run: RunRecord | None) -> int:
    return run.generation if run is not None else 0


def _went_back(shop: Workshop, task: Task, label: str, recorded: int, generation: int) -> str:
    shop.ledger.forget(task.name, label)
    return (
        f"the table holds generation {generation} of {label} where {recorded} was published: "
        "it was recreated, or replaced by an older copy"
    )


def _catch_up(
    shop: Workshop,
    task: Task,
    target: Target,
    app: str,
    label: str,
    generation: int,
    version: int | None,
    known: RunRecord | None,
) -> Intention | None:
    """The intention the slice was published with; the ledger learns what it did not know."""
    if known is not None and known.generation == generation:
        return known.intention
    if not generation:
        return None
    note = target.provenance(task.target, app, generation)
    intention = note.intentions.get(app) if note else None
    attempt = note.attempt if note else None
    forget_effects(shop, task, {label: generation})
    shop.ledger.adopt(task.name, label, generation=generation, attempt=attempt, intention=intention, version=version)
    return intention


def forget_effects(shop: Workshop, task: Task, generations: Mapping[str, int]) -> None:
    """What was said of slices whose publish this ledger did not see, nobody knows: it is not said again. Before they
    are adopted: dying in between leaves the rest to the next look."""
    unknown = [
        prepare(shop.project.id, task.first_name, effect, label, generation, None)
        for label, generation in generations.items()
        for effect in task.effects
    ]
    if unknown:
        shop.ledger.outbox.remember_unknown(task.name, unknown)


def _changed_by_others(shop: Workshop, task: Task, target: Target, plan: Plan) -> list[str]:
    """twice cannot keep other writers away; it can say what they did since the slices were published."""
    if not isinstance(plan.write, ReplaceRows):
        return []  # only a replaced slice owns its rows
    runs = shop.ledger.runs_of(task.name, [slice_.label for slice_ in plan.slices])
    known = {label: run.version for label, run in runs.items() if run.generation and run.version is not None}
    mine = [slice_ for slice_ in plan.slices if slice_.label in known]
    # One question for all of them: hardly ever is there anything to tell apart.
    if not mine or not target.foreign(task.target, min(known.values()), mine):
        return []
    return [
        f"{slice_.label} was changed by others in version {change.version} ({change.operation}); "
        f"to put it right: twice restate {task.name} --date {slice_.label}"
        for slice_ in mine
        for change in target.foreign(task.target, known[slice_.label], [slice_])
    ]


def remembered(shop: Workshop, task: Task, target: Target, app: str, label: str, generation: int) -> Intention | None:
    """The intention of a published generation, by the ledger's word or the commit's own. Changes nothing."""
    known = shop.ledger.run(task.name, label)
    if known is not None and known.generation == generation:
        return known.intention
    note = target.provenance(task.target, app, generation) if generation else None
    return note.intentions.get(app) if note else None
