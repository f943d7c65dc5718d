"""The exchange: the side table takes the place of the table, in one commit with the next token of every slice.

It is an attempt on all slices at once: claimed, looked at, recorded before the commit, settled by the next look if its
process dies. Nobody's effects are prepared for it: a rebuild sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from twice.core.failure.failpoints import Crash, Point, hit
from twice.core.ledger.record import AttemptState, Claim, Facts, InputRecord, SliceRecord
from twice.core.ports import Landed, Published, Staged, Target
from twice.core.results.run import RunRequest
from twice.core.slice import WHOLE, labels_of
from twice.core.table.rebuild import COPIED, filled_for
from twice.core.table.token import CommitNote, SliceToken
from twice.core.write import Kept, ReplaceTable, WritePlan
from twice.errors import TableChanged, UsageError
from twice.runtime.context import Trace
from twice.runtime.rebuild.losses import refuse_lost_keys
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan, refuse_rows_of_no_slice
from twice.runtime.rebuild.side import gone
from twice.runtime.run.attempt import claimed, reported
from twice.runtime.run.commit import commit
from twice.runtime.run.landing import Landing, Wording
from twice.runtime.run.lease import Heartbeat, beating
from twice.runtime.staleness.code_change import parts_to_keep
from twice.runtime.table.garbage import remove_passed
from twice.runtime.table.provenance import provenance_of
from twice.runtime.table.settle import TableState, look
from twice.runtime.write_plan import make_write_plan

WORDING = Wording(
    landed="exchanged",
    done="the table is exchanged",
    doing="the table was being exchanged",
    holds="The table has its new columns and rows.",
    may_hold="The table may already have its new columns and rows.",
    next_look="It then records the exchange.",
)


@dataclass(frozen=True)
class Exchanged:
    version: int
    slices: int
    rows: int


def exchange_filled(rebuild: Rebuild, plan: RebuildPlan, lose_rows: int = 0) -> Exchanged | TableChanged | None:
    """None, and nothing changed, if a slice was published since it was filled: it is to be filled again. The same with
    the error, if others changed the table, or the side table, at the last moment. `lose_rows`: so many rows may be gone
    that no slice has computed again.

    Dying in here has exchanged the table or not, and the next look at it records which.
    """
    context, task = rebuild.context, rebuild.task
    names = {label: rebuild.side_token(label) for label in plan.published}
    with context.session() as session:
        target = rebuild.target(session)
        filled = target.published(rebuild.side_task.target, tuple(names.values()))
        write = _write_plan(rebuild, plan, filled)
        claim = claimed(context, task, write, RunRequest("rebuild", rebuild.patience, silent=True))
        trace = Trace(context.clock)
        with reported(context, claim, trace, WORDING) as landing, beating(context, claim) as heartbeat:
            found = look(context, task, write, target, claim.attempt)
            _refuse_doubted(rebuild, plan, found)
            ready = {label: filled.generations[name] for label, name in names.items()}
            if any(filled_for(number) != found.generations[label] for label, number in ready.items()):
                _give_up(rebuild, claim, landing)
                return None
            # On this very version: what others add from here on stops the exchange, and is looked at again.
            refuse_rows_of_no_slice(rebuild, plan, found.version)
            kept = refuse_lost_keys(rebuild, plan, found.version, filled.version, lose_rows)
            write = _held_to(write, kept, found.version)
            context.ledger.fix(claim, found.generations)
            landing.staging = True
            exchange = _Exchange(rebuild, claim, landing, heartbeat, target, found)
            end = _tried(exchange, write, ready)
            if not isinstance(end, Exchanged):
                _give_up(rebuild, claim, landing)
            return end


@dataclass(frozen=True)
class _Exchange:
    """One try to exchange the table."""

    rebuild: Rebuild
    claim: Claim
    landing: Landing
    heartbeat: Heartbeat
    target: Target
    found: TableState

    def discard(self) -> None:
        """What was brought into the table's folder; not if it may have landed."""
        if self.landing.absent:
            with suppress(Exception):
                self.target.discard(self.rebuild.task.target, self.claim.attempt, (WHOLE,))
                self.rebuild.context.ledger.discarded(self.claim.attempt)


def _tried(exchange: _Exchange, write: WritePlan, ready: Mapping[str, int]) -> Exchanged | TableChanged | None:
    """Dying here has exchanged the table or not."""
    try:
        with _discarding(exchange):
            facts, copied = _facts(exchange, ready)
            staged = exchange.target.stage(exchange.rebuild.task.target, None, write, exchange.claim.attempt)
            return _exchange(exchange, staged, facts, copied)
    except TableChanged as error:
        return error


@contextmanager
def _discarding(exchange: _Exchange) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Crash):
            exchange.discard()
        raise


def _write_plan(rebuild: Rebuild, plan: RebuildPlan, filled: Published) -> WritePlan:
    task = rebuild.task
    made = make_write_plan(rebuild.context.project.id, task, (*plan.computed, *plan.copied))
    slices = tuple(replace(WHOLE, label=slice_.label) for slice_ in made.slices)
    if filled.version is None:
        raise gone(rebuild)
    verb = ReplaceTable(slices, rebuild.side_task.target.name, filled.version, rebuild.token(""), filled.id)
    return replace(made, write=verb, slices=slices)


def _exchange(exchange: _Exchange, staged: Staged, facts: Facts, copied: frozenset[str]) -> Exchanged | None:
    """`copied`: the labels of the slices that were copied into the side table. Dying here has exchanged the table or
    not."""
    context, claim, found = exchange.rebuild.context, exchange.claim, exchange.found
    context.ledger.advance(claim, AttemptState.CLAIMED, AttemptState.STAGED, facts)
    hit(Point.AFTER_STAGE)
    exchange.heartbeat.check(exchange.rebuild.task.name)
    context.ledger.advance(claim, AttemptState.STAGED, AttemptState.AUDITED)
    context.ledger.advance(claim, AttemptState.AUDITED, AttemptState.PUBLISHING)
    hit(Point.PUBLISHING)
    names = {slice_.label: name for slice_, name in zip(staged.plan.slices, staged.plan.token_names, strict=True)}
    expected = {names[label]: generation for label, generation in found.generations.items()}
    note = CommitNote(
        claim.attempt,
        "rebuild",
        {name: generation + 1 for name, generation in expected.items()},
        {names[each.label]: each.intention for each in facts.slices if each.intention is not None},
        why=facts.why,
        beside=found.cut.move,
        side=_verb(staged.plan).side_id,
        copied=copied,
    )
    end = commit(exchange.landing, exchange.target, staged, {**expected, **found.watched}, note)
    if not isinstance(end, Landed):
        exchange.discard()
        return None
    hit(Point.AFTER_PUBLISH)
    exchange.landing.record()
    exchange.landing.remove_unused()
    hit(Point.AFTER_FINISH)
    with suppress(Exception):  # what earlier tries have left; the next run looks after it else
        remove_passed(context, exchange.rebuild.task, exchange.target, tuple(found.generations))
    return Exchanged(end.version, len(found.generations), staged.rows)


def _refuse_doubted(rebuild: Rebuild, plan: RebuildPlan, found: TableState) -> None:
    """A copied slice moves on like the others: that others may have written over it would be forgotten."""
    doubted = [slice_ for slice_ in plan.copied if slice_.label in found.overwritten]
    if doubted:
        raise UsageError(
            f"{labels_of(doubted)} may hold rows of other slices or of another task, so it is not copied",
            where=rebuild.task.name,
            now="The table is unchanged; the copy that is being built stays.",
            fix=f"Publish it first (twice backfill {rebuild.task.name} …), or rebuild without --from and --to.",
        )


def _give_up(rebuild: Rebuild, claim: Claim, landing: Landing) -> None:
    """A slice was published meanwhile. Nothing of this attempt is in the table."""
    assert landing.absent
    facts = Facts(why="slices were published while the side table was filled")
    rebuild.context.ledger.close_attempt(claim.attempt, AttemptState.SUPERSEDED, facts)


def _held_to(plan: WritePlan, kept: Kept | None, version: int | None) -> WritePlan:
    return replace(plan, write=replace(_verb(plan), kept=kept), read_at=version)


def _verb(plan: WritePlan) -> ReplaceTable:
    assert isinstance(plan.write, ReplaceTable), plan.write
    return plan.write


def _facts(exchange: _Exchange, ready: Mapping[str, int]) -> tuple[Facts, frozenset[str]]:
    """What each slice was made from: as it was filled; of a copied one, as it was published before. And which were
    copied. `ready`: the numbers of the side table's tokens."""
    rebuild, found = exchange.rebuild, exchange.found
    aside, side, labels = rebuild.aside, rebuild.side_task, list(ready)
    runs = aside.ledger.runs_of(side.name, labels)
    computed_from = aside.ledger.inputs(side.name, labels)
    published_from = rebuild.context.ledger.inputs(rebuild.task.name, labels)
    slices, inputs, taken = list[SliceRecord](), list[InputRecord](), set[str]()
    for label, number in ready.items():
        run = runs.get(label)
        if run is not None and run.generation == number:
            made, rows, fingerprint = run.intention, run.rows, run.fingerprint
        else:  # its ledger is lost: the side table itself remembers
            token = SliceToken(rebuild.side_token(label), label, number)
            made, rows, fingerprint = provenance_of(aside, side, exchange.target, token).intention, None, None
        copied = made is not None and made.code == COPIED
        taken |= {label} if copied else set()
        intention = found.intentions[label] if copied else made
        slices.append(SliceRecord(label, intention=intention, rows=rows, fingerprint=fingerprint))
        inputs.extend((published_from if copied else computed_from).get(label, ()))
    why = f"rebuilt from {side.target}"
    kept = parts_to_keep(rebuild.context, rebuild.task, (each.intention for each in slices))
    return Facts(slices=tuple(slices), inputs=tuple(inputs), why=why, code_parts=kept), frozenset(taken)


def exchanged_before(rebuild: Rebuild, target: Target, filled: Mapping[str, int], side_id: str | None) -> int | None:
    """The version at which this very side table was exchanged already, by a process that died before it could drop it;
    None if it was not."""
    for label, number in filled.items():
        base = filled_for(number)
        if base is None:
            continue
        note = target.provenance(rebuild.task.target, rebuild.token(label), base + 1)
        if note is None or note.kind != "rebuild" or note.side is None or note.side != side_id:
            return None
        return note.version
    return None
