"""One attempt of the real runtime, step by step: what it asks of the system next, given the answers it got so far.

`twice.runtime` itself runs here, from its claim to its finish; only the ledger and the target under it are stand-ins
that ask the system. A run depends on nothing but its answers, so it can be begun again and brought to any moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from tests.proof.protocol.system import LEASE_LOST, LOST, Commit, Run, Seen, Sent

from twice import Daily, audit, replace, task
from twice.core.failure.failpoints import Crash
from twice.core.ledger.found import FoundPublish
from twice.core.ledger.outbox import EffectRecord, EffectState
from twice.core.ledger.record import (
    AttemptRecord,
    AttemptState,
    Busy,
    Claim,
    ClaimRequest,
    Facts,
    RunRecord,
    SliceRecord,
)
from twice.core.ledger.record_owner import RecordOwner
from twice.core.ports import Column, Landed, Lost, PreparedTable, Published, Shape, Staged
from twice.core.project.project import assemble
from twice.core.results.run import Outcome, RunRequest
from twice.core.table.token import CommitNote, Intention
from twice.core.task import TableName, Task
from twice.engine.plain import PlainEngine
from twice.errors import LeaseLost, RunError, SliceBusy, StageMismatch, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.recover import recover
from twice.targets.memory.rows import Rows

NOON = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
SCOPE = Daily("day", start="2026-01-01")
SLICE = SCOPE.slice_of("2026-06-09")
APP = "twice/p/revenue/2026-06-09"


@dataclass(frozen=True)
class Actor:
    """An attempt, and what it means to publish. `passes`: whether its rows pass their audit. The kind "recover" is no
    attempt: it settles those that stopped reporting."""

    id: str
    code: str = "v1"
    kind: str = "run"
    passes: bool = True


@dataclass(frozen=True)
class NextStep:
    step: tuple[Any, ...]


@dataclass(frozen=True)
class Ended:
    """An outcome's value, or an error's code."""

    how: str


class _Pending(Crash):
    """Nothing in the runtime may catch this: the system has not answered yet."""


def resume(actor: Actor, replies: tuple[Any, ...], database: str, guards: frozenset[str]) -> NextStep | Ended:
    line = _Line(replies)
    context = RunContext(
        project=assemble("p", [_declared(actor)]),
        ledger=ModelLedger(line, actor.id),
        engine=PlainEngine(),
        target_of=lambda table, session: TARGETS[database](line, actor, guards),
        code_hash=lambda declared: actor.code,
        clock=_Clock(),
        holder=actor.id,
        lease=HOUR,
    )
    declared = context.project.tasks["revenue"]
    try:
        if actor.kind == "recover":
            recover(context, None)
            return Ended("recovered")
        result = run_task(context, declared, (SLICE,), RunRequest(actor.kind))  # type: ignore[arg-type]
    except _Pending:
        assert line.asked is not None
        return NextStep(line.asked)
    except TwiceError as error:
        return Ended(error.code)
    return Ended(result.outcome.value)


def _declared(actor: Actor) -> Task:
    wanted = audit.rows(at_least=1 if actor.passes else 2)

    @task("shop.revenue", scope=SCOPE, inputs={}, write=replace(), audits=[wanted], name="revenue")
    def revenue() -> Rows:
        return Rows((Column("day", "date"), Column("n", "bigint")), ((date(2026, 6, 9), 1),))

    return revenue


class _Clock:
    """Stands still: the holder never notices that its lease ran out. That is the worst it can do."""

    def now(self) -> datetime:
        return NOON

    def monotonic(self) -> float:
        return 0.0


@dataclass
class _Line:
    replies: tuple[Any, ...]
    at: int = 0
    asked: tuple[Any, ...] | None = None

    def ask(self, *step: Any) -> Any:
        if self.at < len(self.replies):
            self.at += 1
            answer = self.replies[self.at - 1]
            if answer == LEASE_LOST:
                raise LeaseLost("this attempt was settled")
            return answer
        self.asked = step
        raise _Pending


def _unasked(*_: Any, **__: Any) -> Any:
    raise AssertionError("these runs ask nothing of the kind")


class _NoEffects:
    """These tasks have none."""

    render = begin = holds = end = change = remember_unknown = find = last_counted = table_of = _unasked

    def of_attempt(self, attempt: str) -> tuple[EffectRecord, ...]:
        return ()

    def in_state(self, state: EffectState, task: str | None = None) -> tuple[EffectRecord, ...]:
        return ()

    def due(self, task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        return ()

    def not_reporting(self, task: str | None) -> tuple[EffectRecord, ...]:
        return ()

    def next_due(self, task: str | None) -> datetime | None:
        return None

    def listed(self, states: Sequence[EffectState], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        return ()


class _NoBackfills:
    create = record = records = batches = move = finish = again = claim = renew = release = _unasked
    held = free = done = failed = split = _unasked

    def finish_done(self) -> int:
        return 0


class _NothingOld:
    """No records from before the ledger knew environments."""

    waiting = unsent = take = take_rest = _unasked

    def any(self, names: Sequence[str]) -> bool:
        return False


class ModelLedger:
    """`core.ports.RunLedger`, as far as a run asks it."""

    frozen_aim = furthest_aim = why_published = last_version = published_versions = publishers = publishes = (
        displaced
    ) = _unasked
    runs = inputs = pins = postpone = quarantine = lift = record_takeover = record_acceptance = accepted = prune = (
        close
    ) = _unasked

    def __init__(self, line: _Line, me: str) -> None:
        self._line = line
        self._me = me

    @property
    def owner(self) -> RecordOwner:
        return RecordOwner()

    @property
    def outbox(self) -> _NoEffects:
        return _NoEffects()

    @property
    def backfills(self) -> _NoBackfills:
        return _NoBackfills()

    @property
    def unassigned(self) -> _NothingOld:
        return _NothingOld()

    def now(self) -> datetime:
        return NOON

    def claim(self, request: ClaimRequest, lease: timedelta) -> Claim | Busy:
        found = self._line.ask("claim")
        if found == "claimed":
            return Claim(self._me, request.task, tuple(request.labels), 1)
        return Busy(SLICE.label, found[1], f"elsewhere {found[1]}", NOON + HOUR)

    def quarantined(self, task: str, labels: Sequence[str] | None = None) -> dict[str, datetime]:
        return {}

    def left_open(self) -> tuple[()]:
        return ()

    def renew(self, claim: Claim, lease: timedelta) -> bool:
        return bool(self._line.ask("renew"))

    def release(self, attempt: str) -> None:
        self._line.ask("release", attempt)

    def fix(self, claim: Claim, expected: Mapping[str, int], aims: Mapping[str, int] | None = None) -> None:
        assert aims is not None
        self._line.ask("fix", expected[SLICE.label], aims[SLICE.label])

    def advance(self, claim: Claim, before: AttemptState, after: AttemptState, facts: Facts = Facts()) -> None:  # noqa: B008
        intention = facts.slices[0].intention if facts.slices else None
        recorded = None if intention is None else (intention.code, str(intention.inputs))
        self._line.ask("advance", before.value, after.value, recorded)

    def close_attempt(self, attempt: str, state: AttemptState, facts: Facts | None = None) -> bool:
        return bool(self._line.ask("close", attempt, state.value))

    def abandon_unlooked(self, attempt: str) -> bool:
        return bool(self._line.ask("abandon", attempt))

    def publish(self, attempt: str, facts: Facts, *, generations: Mapping[str, int]) -> None:
        self._line.ask("publish", attempt, generations[SLICE.label])

    def record_found(self, task: str, found: Sequence[FoundPublish]) -> None:
        (one,) = found
        recorded = None if one.intention is None else (one.intention.code, str(one.intention.inputs))
        self._line.ask("record_found", Run(one.generation, one.attempt, recorded))

    def forget(self, task: str, label: str) -> None:
        self._line.ask("forget")

    def discarded(self, attempt: str) -> None:
        self._line.ask("discarded", attempt)

    def open_attempts(self, task: str | None = None, labels: Any = None) -> tuple[AttemptRecord, ...]:
        return tuple(_record(seen, AttemptState.CLAIMED) for seen in self._line.ask("open"))

    def undiscarded(self, task: str | None = None) -> tuple[AttemptRecord, ...]:
        return tuple(_record(seen, AttemptState.ABANDONED) for seen in self._line.ask("undiscarded"))

    def attempt(self, attempt: str, task: str | None = None) -> None:
        """Only what it read would be asked for, and these tasks read nothing."""

    def run(self, task: str, label: str) -> RunRecord | None:
        run: Run = self._line.ask("known")
        intention = None if run.intention is None else Intention(*run.intention)
        return RunRecord(task, label, run.generation, run.attempt, intention, 1, "f", None, NOON, None, None)

    def gather(self, task: str) -> None:
        """The task was never renamed."""

    def code_parts(self, task: str, codes: Sequence[str]) -> dict[str, Any]:
        """Which part of the code changed decides nothing."""
        return {}

    def runs_of(self, task: str, labels: Sequence[str]) -> dict[str, RunRecord]:
        """There is one slice, and one look at it."""
        run = self.run(task, *labels)
        return {} if run is None else {run.label: run}


def _record(seen: Seen, state: AttemptState) -> AttemptRecord:
    until = NOON + HOUR if seen.held else None
    slices = (SliceRecord(SLICE.label, seen.expected, aim=seen.aim),)
    return AttemptRecord(
        seen.id, "revenue", "run", state, 1, "h", NOON, None, until, slices, (), (), None, None, (), {}, None, False
    )


class ModelTarget:
    """What both table systems do alike."""

    tokens = touched = one_slice_only = duplicates = commit = forget = read = check_exchange = drop_side = _unasked

    def __init__(self, line: _Line, actor: Actor, guards: frozenset[str]) -> None:
        self._line = line
        self._me = actor
        self._guards = guards

    def prepare(self, table: TableName, shape: Shape, layout: Any, evolve: bool) -> PreparedTable:
        return PreparedTable(shape, True)

    def published(self, table: Any, token_names: Sequence[str]) -> Published:
        version, generation = self._line.ask("published")
        return Published(version, {**dict.fromkeys(token_names, 0), APP: generation})  # nobody takes this table over

    def provenance(self, table: Any, token_name: str, generation: int, at: int | None = None) -> CommitNote | None:
        commit: Commit | None = self._line.ask("provenance", generation)
        if commit is None:
            return None
        intentions = {APP: Intention(*commit.intention)}
        return CommitNote(commit.attempt, "run", {APP: generation}, intentions, version=generation)

    def foreign(self, table: Any, since: int, slices: Any) -> tuple[()]:
        return ()

    def stage(self, table: Any, frame: Any, plan: Any, attempt: str, **how: Any) -> Staged:
        self._line.ask("stage")
        return Staged(table, plan, attempt, 1, {SLICE.label: 1})

    def discard(self, table: Any, attempt: str, slices: Any) -> int:
        return int(self._line.ask("discard", attempt))

    def _commit(self, note: CommitNote) -> Commit:
        intention = note.intentions[APP]
        return Commit(self._me.id, note.generations[APP], (intention.code, str(intention.inputs)), note.kind)

    def _check_stage(self, there: bool) -> None:
        if "manifest" in self._guards and not there:
            raise StageMismatch("the staged rows are gone")

    def _read_back(self, commit: Commit) -> bool:
        """Whether ours is in the log. Only the table knows how a commit without an answer ended."""
        if "read back" not in self._guards:
            raise RunError("the commit failed")
        found: Commit | None = self._line.ask("provenance", commit.generation)
        return found is not None and found.attempt == self._me.id


class DeltaModel(ModelTarget):
    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        commit = self._commit(note)
        while True:
            version, generation, seen, there = self._line.ask("begin")
            if "compare" in self._guards and generation != expected[APP]:
                return Lost(Published(version, {APP: generation}))
            self._check_stage(there)
            answer = self._line.ask("send", Sent(commit, version, seen))
            if answer == ("landed",):
                return Landed(version + 1)
            if answer == LOST and self._read_back(commit):
                return Landed(version + 1)


class PostgresModel(ModelTarget):
    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        commit = self._commit(note)
        while True:
            version, generation, there = self._line.ask("lock")
            if "compare" in self._guards and generation != expected[APP]:
                self._line.ask("unlock")
                return Lost(Published(version, {APP: generation}))
            self._check_stage(there)
            self._line.ask("write")
            if self._line.ask("commit", commit) != LOST or self._read_back(commit):
                return Landed(version + 1)


TARGETS = {"delta": DeltaModel, "postgres": PostgresModel}
ENDINGS = frozenset({Outcome.PUBLISHED.value, Outcome.ALREADY.value, SliceBusy.code, LeaseLost.code})
