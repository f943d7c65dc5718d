"""The ledger: what was tried, what landed, who is at work. SQLite or PostgreSQL, by URL.

It is opened for one project and environment, and sees no record of another's.

Every method is one transaction: it has happened or it has not, whenever the process dies. A line that breaks in the
middle of one is made again and the method called again (outage.py): each may happen twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, update

from twice.core.home import Home, Place
from twice.core.ports import Clock
from twice.core.proof import Proof, ProofRecord
from twice.core.record import (
    Adopted,
    AttemptRecord,
    Busy,
    Claim,
    Facts,
    InputRecord,
    Overview,
    Pinned,
    Pruned,
    RunRecord,
    SliceRecord,
)
from twice.core.run import AttemptState
from twice.core.token import Intention, Kind
from twice.ledgers.backfills.backfills import Backfills
from twice.ledgers.database.clock import database_time
from twice.ledgers.database.connect import connect, for_writing, parse_url
from twice.ledgers.database.errors import plain_errors, problem
from twice.ledgers.database.export import export
from twice.ledgers.database.migrate import migrate
from twice.ledgers.database.outage import PATIENCE_SECONDS, Outage, outliving
from twice.ledgers.database.owners import Owner, missing
from twice.ledgers.database.schema import HEAD, attempts
from twice.ledgers.effects.outbox import Outbox
from twice.ledgers.runs import claims, history, proofs, prune, quarantine, transitions
from twice.ledgers.runs.claims import ClaimRequest
from twice.ledgers.runs.rename import rename, settle_in
from twice.ledgers.runs.unassigned import OldRecords

NOWHERE = Home()
"""For a ledger that nobody shares: a proof's, a test's."""


class Ledger:
    """Open one with `Ledger.open`. Threads may share it; a forked child must open its own.

    Its clock is the database's, so that hosts need not agree on the time; a test may give its own."""

    def __init__(
        self, engine: Engine, clock: Clock | None = None, patience: float = PATIENCE_SECONDS, home: Home = NOWHERE
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._outage = Outage(patience)
        self._owner = Owner(home)

    @classmethod
    def open(
        cls, url: str, clock: Clock | None = None, patience: float = PATIENCE_SECONDS, home: Home = NOWHERE
    ) -> Ledger:
        """Open, create or migrate the ledger. Dying here leaves no ledger, an empty one, or a whole one.
        A server that does not answer now is told at once; one that goes away later is waited for, `patience` seconds.
        """
        engine = connect(parse_url(url))
        try:
            migrate(engine)
            opened = cls(engine, clock, patience, home)
            opened._settle_in()
        except BaseException:
            engine.dispose()
            raise
        return opened

    @staticmethod
    def migrate(url: str) -> tuple[str | None, str]:
        """Make the ledger or bring it to this twice's schema, as `open` does; its version before and after."""
        engine = connect(parse_url(url))
        try:
            return migrate(engine), HEAD
        finally:
            engine.dispose()

    def close(self) -> None:
        self._engine.dispose()

    @property
    def home(self) -> Home:
        return self._owner.home

    @property
    def backfills(self) -> Backfills:
        return Backfills(self._outage, self._writing, self._reading, self._time, self._owner)

    @property
    def unassigned(self) -> OldRecords:
        """Records from before the ledger knew whose they are."""
        return OldRecords(self._outage, self._writing, self._reading, self._time, self._owner)

    @property
    def outbox(self) -> Outbox:
        """What is to be said of what was published."""
        return Outbox(self._reading, self._writing, self._time, self._outage, self._owner)

    @outliving
    def now(self) -> datetime:
        """The clock that leases are measured by: the database's, which is one for all hosts."""
        with self._reading() as connection:
            return self._time(connection)

    @outliving
    def claim(
        self, task: str, labels: Sequence[str], *, attempt: str, kind: Kind, holder: str, lease: timedelta
    ) -> Claim | Busy:
        """All slices or none. Dying after it leaves an open attempt whose lease runs out. A second call by the same
        attempt finds the claim of the first."""
        request = ClaimRequest(self._owner.key(task) if task else "", tuple(labels), attempt, kind, holder)
        found: Claim | Busy | None = None
        while found is None:
            with self._writing() as connection:
                # With the lock in hand: a claim that waited for it must not judge leases by an old time.
                self._owner.register(connection, [task])
                now = self._time(connection)
                found = claims.claim(connection, request, now, now + lease)
                if not isinstance(found, Claim):
                    connection.rollback()
        return found

    @outliving
    def renew(self, claim: Claim, lease: timedelta) -> bool:
        """Hold on for another `lease`. False: another attempt took a slice over, or settled this one as dead."""
        with self._writing() as connection:
            held = claims.renew(connection, claim, self._time(connection) + lease)
            if not held:
                connection.rollback()
            return held

    @outliving
    def release(self, attempt: str) -> None:
        """The process behind an attempt is known to be gone: its lease ends now. The attempt stays open until a look
        at the table says what became of it. A second call changes nothing."""
        with self._writing() as connection:
            fence = connection.execute(history.named(self._owner, attempt)).scalar_one_or_none()
            if fence is not None:
                claims.release(connection, fence)

    @outliving
    def fix(self, claim: Claim, expected: Mapping[str, int], aims: Mapping[str, int] | None = None) -> None:
        """Write the generation of each slice found at look, and the one to publish (one more, unless `aims` says
        otherwise): once, before anything is staged for it."""
        aimed = {label: generation + 1 for label, generation in expected.items()} | dict(aims or {})
        with self._writing() as connection:
            transitions.fix(connection, claim, expected, aimed)

    @outliving
    def frozen_aim(self, task: str, label: str, expected: int) -> int | None:
        """What an earlier attempt from this same generation aimed at, if there was one: a retry keeps to it."""
        with self._reading() as connection:
            return history.frozen_aim(connection, self._owner, task, label, expected)

    @outliving
    def furthest_aim(self, task: str, label: str, last: int) -> int | None:
        """The greatest generation, none beyond `last`, that was ever published of a slice, also if it was set back."""
        with self._reading() as connection:
            return history.furthest_aim(connection, self._owner, task, label, last)

    @outliving
    def why_published(self, task: str, label: str, generation: int) -> tuple[str, ...]:
        """The reasons kept with the attempts that published this generation of a slice, newest first: several where
        the table went back in between."""
        with self._reading() as connection:
            return history.why_published(connection, self._owner, task, label, generation)

    @outliving
    def last_version(self, task: str) -> int | None:
        """The newest version of its table that a task has published; None if nobody knows of one."""
        with self._reading() as connection:
            return history.last_version(connection, self._owner, task)

    def advance(self, claim: Claim, before: AttemptState, after: AttemptState, facts: Facts = Facts()) -> None:  # noqa: B008
        """Move on and keep what was learnt. Raises LeaseLost if another process has closed this attempt."""

        def move(again: bool) -> None:
            with self._writing() as connection:
                now = self._time(connection)
                transitions.advance(connection, claim, before, after, facts, now, again)

        self._outage.outlive(move)

    @outliving
    def publish(self, attempt: str, facts: Facts, *, generations: Mapping[str, int]) -> None:
        """The target says these generations landed. Dying before it leaves the ledger behind the table; the next
        look at the slice calls this again. A second call changes nothing."""
        with self._writing() as connection:
            fence = connection.execute(history.named(self._owner, attempt)).scalar_one_or_none()
            if fence is None:
                raise problem(
                    f"attempt {attempt} is not in this ledger: it was replaced, or its environment was given a name, "
                    "while the attempt ran. "
                    "The table holds what the attempt published",
                    self._engine.url,
                    "Run again: it will look at the table first.",
                )
            transitions.publish(connection, fence, facts, generations, self._time(connection))

    @outliving
    def close_attempt(self, attempt: str, state: AttemptState, facts: Facts = Facts()) -> bool:  # noqa: B008
        """End an attempt that published nothing and let go of its slices. False, and nothing written, if it has
        ended before or is unknown. Dying before it leaves an open attempt for a later look."""
        with self._writing() as connection:
            fence = connection.execute(history.named(self._owner, attempt)).scalar_one_or_none()
            return fence is not None and transitions.close(connection, fence, state, facts, self._time(connection))

    @outliving
    def postpone(self, attempt: str, until: datetime, note: str) -> None:
        """The attempt failed and the run is tried again then; its slices are free meanwhile. A second call changes
        nothing."""
        with self._writing() as connection:
            fence = connection.execute(history.named(self._owner, attempt)).scalar_one_or_none()
            if fence is not None:
                quarantine.postpone(connection, fence, until, note)

    @outliving
    def quarantine(self, attempt: str, note: str) -> bool:
        """No more attempts at its slices until a person lifts it. False if the attempt never claimed them, or another
        one has begun since. A publish lifts it too. A second call changes nothing."""
        with self._writing() as connection:
            fence = connection.execute(history.named(self._owner, attempt)).scalar_one_or_none()
            return fence is not None and quarantine.quarantine(connection, fence, self._time(connection), note)

    @outliving
    def lift(self, task: str, labels: Sequence[str]) -> None:
        """A person's word: these slices may be tried again. A second call changes nothing."""
        with self._writing() as connection:
            quarantine.lift(connection, self._owner, task, labels)

    @outliving
    def quarantined(self, task: str) -> Mapping[str, datetime]:
        """The task's slices that wait for a person, and since when."""
        with self._reading() as connection:
            return quarantine.quarantined(connection, self._owner, task)

    @outliving
    def abandon_unlooked(self, attempt: str) -> bool:
        """End an attempt that died before it looked at its table: it has staged nothing, so nothing is left of it.
        False, and nothing written, if it has looked after all, or has ended. It may wake: the ledger then stops it."""
        with self._writing() as connection:
            fence = connection.execute(history.named(self._owner, attempt)).scalar_one_or_none()
            return fence is not None and transitions.abandon_unlooked(connection, fence, self._time(connection))

    def adopt(
        self,
        task: str,
        label: str,
        *,
        generation: int,
        attempt: str | None,
        intention: Intention | None,
        version: int | None,
        measured: SliceRecord | None = None,
    ) -> None:
        """Record a publish that the target shows and this ledger has missed, or has forgotten: then an attempt of its
        own has `measured` it. Never moves a run back. When it happened is not known, so `published` stays empty. A
        second call changes nothing."""
        rows, fingerprint = (measured.rows, measured.fingerprint) if measured else (None, None)
        self.adopt_all(task, [Adopted(label, generation, attempt, intention, version, rows, fingerprint)])

    @outliving
    def adopt_all(self, task: str, found: Sequence[Adopted]) -> None:
        """The same for many slices of a task, together."""
        with self._writing() as connection:
            self._owner.register(connection, [task])
            transitions.adopt(connection, self._owner.key(task), found)

    @outliving
    def forget(self, task: str, label: str) -> None:
        """The table holds less than was published (recreated, or an older copy put in its place): what is recorded
        of its publish is no longer true. Its attempts stay; the next publish counts from what the table holds.
        Dying before it leaves that to the next look."""
        with self._writing() as connection:
            transitions.forget(connection, self._owner.key(task), label)

    @outliving
    def record_takeover(self, task: str, attempt: str, holder: str, why: str) -> None:
        """A task was given a table that held another's slices: kept among its attempts, without slices of its own. A
        second call with the same attempt changes nothing."""
        with self._writing() as connection:
            self._owner.register(connection, [task])
            key, now = self._owner.key(task), self._time(connection)
            transitions.record_takeover(connection, key, attempt, holder, why, now)

    @outliving
    def discarded(self, attempt: str) -> None:
        """The attempt's staged files are known to be gone. Dying before it costs one more look for them."""
        with self._writing() as connection:
            mine = self._owner.of_any_table(attempts.c.task)
            connection.execute(update(attempts).where(attempts.c.id == attempt, mine).values(discarded=True))

    @outliving
    def rename(self, old: str, new: str) -> None:
        """A task's history follows it to its new name. A second call changes nothing."""
        with self._writing() as connection:
            rename(connection, self._owner, old, new)

    @outliving
    def attempt(self, attempt: str, task: str | None = None) -> AttemptRecord | None:
        """With `task`, only if it is that task's, at the table it writes now."""
        with self._reading() as connection:
            return next(iter(history.read_attempts(connection, history.named(self._owner, attempt, task))), None)

    @outliving
    def attempts(self, task: str, label: str | None = None, limit: int = 50) -> tuple[AttemptRecord, ...]:
        """Newest first."""
        with self._reading() as connection:
            return history.read_attempts(connection, history.newest(self._owner, task, label, limit))[::-1]

    @outliving
    def open_attempts(self, task: str | None = None, labels: Sequence[str] | None = None) -> tuple[AttemptRecord, ...]:
        """Attempts that may be at work or may have died, oldest first; with `labels`, those touching one of them."""
        with self._reading() as connection:
            found = history.read_attempts(connection, history.still_open(self._owner, task))
        # Filtered here: few attempts are open, but a backfill may ask for more labels than a statement can carry.
        wanted = None if labels is None else set(labels)
        return tuple(a for a in found if wanted is None or any(s.label in wanted for s in a.slices))

    @outliving
    def left_open(self) -> tuple[tuple[str, str, Ledger], ...]:
        """Tasks that wrote another table before and have open attempts there: each with that table, and this ledger as
        it was for it."""
        with self._reading() as connection:
            found = history.tables_left_open(connection, self._owner)
        return tuple((task, place.table, self._at(task, place)) for task, place in found)

    def _at(self, task: str, place: Place) -> Ledger:
        there = Ledger(self._engine, self._clock, home=replace(self.home, places={**self.home.places, task: place}))
        there._outage = self._outage
        return there

    @outliving
    def undiscarded(self, task: str | None = None) -> tuple[AttemptRecord, ...]:
        """Attempts closed without publishing whose staged files may be left, oldest first."""
        with self._reading() as connection:
            return history.read_attempts(connection, history.with_leftovers(self._owner, task))

    @outliving
    def run(self, task: str, label: str) -> RunRecord | None:
        """None for a slice that was never claimed, published or adopted."""
        with self._reading() as connection:
            return next(iter(history.read_runs(connection, self._owner, task, label)), None)

    @outliving
    def runs_of(self, task: str, labels: Sequence[str]) -> dict[str, RunRecord]:
        """The same for many slices at once, by label; without those nobody knows."""
        with self._reading() as connection:
            return {run.label: run for run in history.read_runs_of(connection, self._owner, task, labels)}

    @outliving
    def runs(self, task: str | None = None) -> tuple[RunRecord, ...]:
        """By task and label."""
        with self._reading() as connection:
            return history.read_runs(connection, self._owner, task)

    def _time(self, connection: Connection) -> datetime:
        return database_time(connection) if self._clock is None else self._clock.now()

    @outliving
    def overview(self, task: str | None, limit: int) -> Overview:
        """At a glance, also over 100,000 runs: they are counted by the database and only the last are read."""
        with self._reading() as connection:
            return history.read_overview(connection, self._owner, task, limit)

    @outliving
    def record_proof(self, proof: Proof) -> None:
        """Keep a proof with the code it is of. A second call keeps it twice, and the newest counts."""
        with self._writing() as connection:
            self._owner.register(connection, [proof.task])
            proofs.record(connection, self._owner, proof)

    @outliving
    def proofs(self) -> Mapping[str, ProofRecord]:
        """The last proof of each task, by task."""
        with self._reading() as connection:
            return proofs.newest(connection, self._owner)

    def prune(self, before: datetime) -> Pruned:
        """Let go of what ended before then and decides nothing any more, in many small transactions. A second call
        finds nothing. Dying in between leaves the rest to the next call."""
        return Pruned(
            self._until_none(prune.prune_attempts, before),
            self._until_none(prune.prune_effects, before),
            self._until_none(prune.prune_texts, before),
            self._until_none(prune.prune_backfills, before),
            self._until_none(prune.prune_proofs, before),
        )

    def _until_none(self, step: Callable[[Connection, Owner, datetime], int], before: datetime) -> int:
        def once(_: bool) -> int:
            with self._writing() as connection:
                return step(connection, self._owner, before)

        total = 0
        while count := self._outage.outlive(once):
            total += count
        return total

    def export(self) -> Iterator[dict[str, Any]]:
        """Every row of every table as plain data, in one state of the ledger. The first says which schema it is."""
        with self._reading() as connection:
            yield from export(connection)

    @outliving
    def inputs(self, task: str) -> Mapping[str, tuple[InputRecord, ...]]:
        """What each published slice of a task was computed from, by label."""
        with self._reading() as connection:
            return history.read_inputs(connection, self._owner, task)

    @outliving
    def pins(self, task: str, table: str) -> Mapping[str, Pinned]:
        """Up to which version of a table each published slice of a task is known to be right, by label."""
        with self._reading() as connection:
            return history.read_pins(connection, self._owner, task, table)

    @outliving
    def publishers(self, task: str) -> Mapping[str, int]:
        """The fence of the attempt that published each slice of a task, by label."""
        with self._reading() as connection:
            return history.read_publishers(connection, self._owner, task)

    @outliving
    def published_versions(self, task: str, labels: Sequence[str]) -> frozenset[int]:
        """The versions of its table at which a task has published one of these slices."""
        with self._reading() as connection:
            return frozenset(history.read_published_versions(connection, self._owner, task, labels))

    @outliving
    def _settle_in(self) -> None:
        """Say what the keys of the declared tasks stand for; take over what their places were called before they had
        a name. A ledger that knows all of it is only read. Dying here leaves the rest to the next opening."""
        with self._reading() as connection:
            if not any(missing(connection, self.home)):
                return
        with self._writing() as connection:
            settle_in(connection, self._owner, *missing(connection, self.home))

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with plain_errors(self._engine.url), for_writing(self._engine).begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with plain_errors(self._engine.url), self._engine.begin() as connection:
            yield connection
