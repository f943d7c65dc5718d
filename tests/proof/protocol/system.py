"""A system small enough to know whole: one slice, its ledger and its table. Every step is a pure function of it.

The ledger's part says what the ledger contract suite proves of the real one. The table's part simulates how Delta and
PostgreSQL commit: optimistically on a snapshot, or under a lock, statement by statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

OPEN = ("claimed", "staged", "audited", "publishing")
GUARDS = frozenset({"lease", "state", "unlooked", "compare", "register", "lock", "manifest", "read back"})
"""What the system enforces; a test takes one away.

    lease      who holds it keeps others out (it only saves work)
    state      a closed attempt cannot go on
    unlooked   an attempt that has looked is not given up as one that had not
    compare    the table's generation must be the one found at look
    register   Delta's commit conflicts with one that moved a token it has read
    lock       PostgreSQL's publish locks the token's row first
    manifest   what was staged must still be there
    read back  a commit without an answer is looked for in the table
"""


@dataclass(frozen=True)
class Try:
    """One attempt, as the ledger has it. `intended`: the intent to publish was written. `stopped`: it was closed before
    it looked, so it may never stage."""

    id: str
    state: str = "claimed"
    expected: int | None = None
    aim: int | None = None
    intention: tuple[str, str] | None = None
    intended: bool = False
    stopped: bool = False
    discarded: bool = False


@dataclass(frozen=True)
class Run:
    generation: int = 0
    attempt: str | None = None
    intention: tuple[str, str] | None = None


@dataclass(frozen=True)
class Commit:
    attempt: str
    generation: int
    intention: tuple[str, str]
    kind: str


@dataclass(frozen=True)
class Sent:
    """A commit of Delta on its way: what its snapshot was, and what it would write."""

    commit: Commit
    read: int
    seen: tuple[str, ...]


@dataclass(frozen=True)
class System:
    """`lease` is who holds the slice and whether that ran out. `rows` says whose rows are visible, `stages` whose files
    exist, `late` whose came when others had already settled the attempt. `lock` and `deleting` are PostgreSQL's open
    transactions; `zombies` are commits whose process has died."""

    tries: tuple[Try, ...] = ()
    lease: tuple[str, bool] | None = None
    run: Run = Run()
    commits: tuple[Commit, ...] = ()
    rows: tuple[str, ...] = ()
    stages: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    lock: str | None = None
    deleting: tuple[tuple[str, tuple[str, ...]], ...] = ()
    zombies: tuple[Sent, ...] = ()

    @property
    def generation(self) -> int:
        return self.commits[-1].generation if self.commits else 0

    def tried(self, attempt: str) -> Try | None:
        return next((one for one in self.tries if one.id == attempt), None)

    def changed(self, attempt: str, **changes: Any) -> System:
        return replace(self, tries=tuple(replace(t, **changes) if t.id == attempt else t for t in self.tries))


Answer = tuple[Any, System]
"""What a step gives to who took it, and the system after it. `("lost",)` stands for an error that carries no answer."""

LEASE_LOST = ("lease lost",)
LOST = ("lost",)


def answers(system: System, actor: str, step: tuple[Any, ...], guards: frozenset[str]) -> Iterator[Answer]:
    """Every way in which a step may end; none while it must wait."""
    name, *arguments = step
    yield from _STEPS[name](system, actor, guards, *arguments)


def run_out(system: System) -> System | None:
    """The lease's time is over, whatever its holder believes."""
    if system.lease is None or system.lease[1]:
        return None
    return replace(system, lease=(system.lease[0], True))


def buried(system: System, actor: str) -> System:
    """A process is gone: its database session ends, and with it its locks and what it has not committed."""
    lock = None if system.lock == actor else system.lock
    return replace(system, lock=lock, deleting=tuple(held for held in system.deleting if held[0] != actor))


# The ledger


def _claim(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    if "lease" in guards and system.lease is not None and not system.lease[1]:
        yield ("busy", system.lease[0]), system
        return
    yield "claimed", replace(system, tries=(*system.tries, Try(actor)), lease=(actor, False))


def _renew(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    held = system.lease is not None and system.lease[0] == actor
    yield held, replace(system, lease=(actor, False)) if held else system


def _fix(system: System, actor: str, guards: frozenset[str], expected: int, aim: int) -> Iterator[Answer]:
    if "state" in guards and _state(system, actor) not in OPEN:
        yield LEASE_LOST, system
        return
    yield None, system.changed(actor, expected=expected, aim=aim)


def _advance(
    system: System, actor: str, guards: frozenset[str], before: str, after: str, intention: tuple[str, str] | None
) -> Iterator[Answer]:
    if "state" in guards and _state(system, actor) != before:
        yield LEASE_LOST, system
        return
    changes: dict[str, Any] = {"state": after} | ({"intention": intention} if intention else {})
    if after == "publishing":
        changes["intended"] = True
    yield None, system.changed(actor, **changes)


def _close(system: System, actor: str, guards: frozenset[str], attempt: str, state: str) -> Iterator[Answer]:
    if _state(system, attempt) not in OPEN:
        yield False, system
        return
    yield True, _released(system.changed(attempt, state=state), attempt)


def _abandon(system: System, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    tried = system.tried(attempt)
    if tried is None or tried.state not in OPEN or ("unlooked" in guards and tried.expected is not None):
        yield False, system
        return
    yield (
        True,
        _released(system.changed(attempt, state="abandoned", discarded=True, stopped=tried.expected is None), attempt),
    )


def _publish(system: System, actor: str, guards: frozenset[str], attempt: str, generation: int) -> Iterator[Answer]:
    tried = system.tried(attempt)
    assert tried is not None
    if tried.state != "published":
        system = _released(system.changed(attempt, state="published"), attempt)
        system = _moved(system, Run(generation, attempt, tried.intention))
    yield None, system


def _record_found(system: System, actor: str, guards: frozenset[str], run: Run) -> Iterator[Answer]:
    yield None, _moved(system, run)


def _forget(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield None, replace(system, run=Run())


def _discarded(system: System, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    yield None, system.changed(attempt, discarded=True)


def _release(system: System, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    yield None, _released(system, attempt)


def _open(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield tuple(_seen(system, t) for t in system.tries if t.state in OPEN), system


def _undiscarded(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    left = ("failed", "rejected", "superseded", "abandoned")
    yield tuple(_seen(system, t) for t in system.tries if t.state in left and not t.discarded), system


def _known(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield system.run, system


def _state(system: System, attempt: str) -> str | None:
    tried = system.tried(attempt)
    return None if tried is None else tried.state


@dataclass(frozen=True)
class Seen:
    """What a run looks at in another attempt: nothing else of it makes a difference. `held`: its lease has not run
    out, and nobody took it over."""

    id: str
    expected: int | None
    aim: int | None
    held: bool


def _seen(system: System, tried: Try) -> Seen:
    return Seen(tried.id, tried.expected, tried.aim, system.lease == (tried.id, False))


def _released(system: System, attempt: str) -> System:
    return replace(system, lease=None) if system.lease is not None and system.lease[0] == attempt else system


def _moved(system: System, run: Run) -> System:
    if run.generation > system.run.generation:
        return replace(system, run=run)
    return system


# The table


def _published(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield (len(system.commits), system.generation), system


def _provenance(system: System, actor: str, guards: frozenset[str], generation: int) -> Iterator[Answer]:
    yield next((c for c in reversed(system.commits) if c.generation == generation), None), system


def _stage(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    tried = system.tried(actor)
    assert tried is not None
    late = {actor} if tried.state not in OPEN and not tried.stopped else set()
    yield None, replace(system, stages=system.stages | {actor}, late=system.late | late)


def _discard(system: System, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    # Never what a version refers to: the log is asked, not the ledger.
    landed = any(commit.attempt == attempt for commit in system.commits)
    there = attempt in system.stages
    yield int(there and not landed), system if landed else replace(system, stages=system.stages - {attempt})


def _begin(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    """Delta: a snapshot, with its token registered."""
    yield (len(system.commits), system.generation, system.rows, actor in system.stages), system


def _send(system: System, actor: str, guards: frozenset[str], sent: Sent) -> Iterator[Answer]:
    """Delta: the next file of the log is put there by one; the others find it, and look whether it concerns them."""
    after = landed(system, sent, guards)
    yield (("conflict",), system) if after is None else (("landed",), after)


def landed(system: System, sent: Sent, guards: frozenset[str]) -> System | None:
    """The system with this commit in it; None if another one moved its token first."""
    since = system.commits[sent.read :]
    if since and "register" in guards:
        return None
    # Files that the snapshot showed are taken out; what came since stays, unless it was seen.
    kept = [row for row in system.rows if row not in sent.seen]
    rows = tuple(sorted([*kept, sent.commit.attempt]))
    return replace(system, commits=(*system.commits, sent.commit), rows=rows)


def _lock(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    """PostgreSQL: SELECT … FOR UPDATE of the token's row."""
    if "lock" in guards and system.lock not in (None, actor):
        return
    found = (len(system.commits), system.generation, actor in system.stages)
    yield found, replace(system, lock=actor) if "lock" in guards else system


def _unlock(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield None, buried(system, actor)


def _write(system: System, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    """PostgreSQL: DELETE sees what is committed when it begins; INSERT is seen by nobody yet."""
    yield None, replace(system, deleting=(*system.deleting, (actor, system.rows)))


def _commit(system: System, actor: str, guards: frozenset[str], commit: Commit) -> Iterator[Answer]:
    deleted = dict(system.deleting)[actor]
    rows = tuple(sorted([*(row for row in system.rows if row not in deleted), actor]))
    yield None, buried(replace(system, commits=(*system.commits, commit), rows=rows), actor)


_STEPS: dict[str, Callable[..., Iterator[Answer]]] = {
    "claim": _claim,
    "renew": _renew,
    "fix": _fix,
    "advance": _advance,
    "close": _close,
    "abandon": _abandon,
    "publish": _publish,
    "record_found": _record_found,
    "forget": _forget,
    "discarded": _discarded,
    "release": _release,
    "open": _open,
    "undiscarded": _undiscarded,
    "known": _known,
    "published": _published,
    "provenance": _provenance,
    "stage": _stage,
    "discard": _discard,
    "begin": _begin,
    "send": _send,
    "lock": _lock,
    "unlock": _unlock,
    "write": _write,
    "commit": _commit,
}
