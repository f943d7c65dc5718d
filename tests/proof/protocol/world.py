"""A world small enough to know whole: one slice, its ledger and its table. Every step is a pure function of it.

The ledger's part says what the ledger contract suite proves of the real one. The table's part simulates how Delta and
PostgreSQL commit: optimistically on a snapshot, or under a lock, statement by statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

OPEN = ("claimed", "staged", "audited", "publishing")
GUARDS = frozenset({"lease", "state", "unlooked", "compare", "register", "lock", "manifest", "read back"})
"""What the world enforces; a test takes one away.

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
class World:
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

    def changed(self, attempt: str, **changes: Any) -> World:
        return replace(self, tries=tuple(replace(t, **changes) if t.id == attempt else t for t in self.tries))


Answer = tuple[Any, World]
"""What a step gives to who took it, and the world after it. `("lost",)` stands for an error that tells nothing."""

LEASE_LOST = ("lease lost",)
LOST = ("lost",)


def answers(world: World, actor: str, step: tuple[Any, ...], guards: frozenset[str]) -> Iterator[Answer]:
    """Every way in which a step may end; none while it must wait."""
    name, *arguments = step
    yield from _STEPS[name](world, actor, guards, *arguments)


def run_out(world: World) -> World | None:
    """The lease's time is over, whatever its holder believes."""
    if world.lease is None or world.lease[1]:
        return None
    return replace(world, lease=(world.lease[0], True))


def buried(world: World, actor: str) -> World:
    """A process is gone: its database session ends, and with it its locks and what it has not committed."""
    lock = None if world.lock == actor else world.lock
    return replace(world, lock=lock, deleting=tuple(held for held in world.deleting if held[0] != actor))


# The ledger


def _claim(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    if "lease" in guards and world.lease is not None and not world.lease[1]:
        yield ("busy", world.lease[0]), world
        return
    yield "claimed", replace(world, tries=(*world.tries, Try(actor)), lease=(actor, False))


def _renew(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    held = world.lease is not None and world.lease[0] == actor
    yield held, replace(world, lease=(actor, False)) if held else world


def _fix(world: World, actor: str, guards: frozenset[str], expected: int, aim: int) -> Iterator[Answer]:
    if "state" in guards and _state(world, actor) not in OPEN:
        yield LEASE_LOST, world
        return
    yield None, world.changed(actor, expected=expected, aim=aim)


def _advance(
    world: World, actor: str, guards: frozenset[str], before: str, after: str, intention: tuple[str, str] | None
) -> Iterator[Answer]:
    if "state" in guards and _state(world, actor) != before:
        yield LEASE_LOST, world
        return
    changes: dict[str, Any] = {"state": after} | ({"intention": intention} if intention else {})
    if after == "publishing":
        changes["intended"] = True
    yield None, world.changed(actor, **changes)


def _close(world: World, actor: str, guards: frozenset[str], attempt: str, state: str) -> Iterator[Answer]:
    if _state(world, attempt) not in OPEN:
        yield False, world
        return
    yield True, _released(world.changed(attempt, state=state), attempt)


def _abandon(world: World, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    tried = world.tried(attempt)
    if tried is None or tried.state not in OPEN or ("unlooked" in guards and tried.expected is not None):
        yield False, world
        return
    yield (
        True,
        _released(world.changed(attempt, state="abandoned", discarded=True, stopped=tried.expected is None), attempt),
    )


def _publish(world: World, actor: str, guards: frozenset[str], attempt: str, generation: int) -> Iterator[Answer]:
    tried = world.tried(attempt)
    assert tried is not None
    if tried.state != "published":
        world = _released(world.changed(attempt, state="published"), attempt)
        world = _moved(world, Run(generation, attempt, tried.intention))
    yield None, world


def _adopt(world: World, actor: str, guards: frozenset[str], run: Run) -> Iterator[Answer]:
    yield None, _moved(world, run)


def _forget(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield None, replace(world, run=Run())


def _discarded(world: World, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    yield None, world.changed(attempt, discarded=True)


def _release(world: World, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    yield None, _released(world, attempt)


def _open(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield tuple(_seen(world, t) for t in world.tries if t.state in OPEN), world


def _undiscarded(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    left = ("failed", "rejected", "superseded", "abandoned")
    yield tuple(_seen(world, t) for t in world.tries if t.state in left and not t.discarded), world


def _known(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield world.run, world


def _state(world: World, attempt: str) -> str | None:
    tried = world.tried(attempt)
    return None if tried is None else tried.state


@dataclass(frozen=True)
class Seen:
    """What a run looks at in another attempt: nothing else of it makes a difference. `held`: its lease has not run
    out, and nobody took it over."""

    id: str
    expected: int | None
    aim: int | None
    held: bool


def _seen(world: World, tried: Try) -> Seen:
    return Seen(tried.id, tried.expected, tried.aim, world.lease == (tried.id, False))


def _released(world: World, attempt: str) -> World:
    return replace(world, lease=None) if world.lease is not None and world.lease[0] == attempt else world


def _moved(world: World, run: Run) -> World:
    if run.generation > world.run.generation:
        return replace(world, run=run)
    return world


# The table


def _published(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield (len(world.commits), world.generation), world


def _provenance(world: World, actor: str, guards: frozenset[str], generation: int) -> Iterator[Answer]:
    yield next((c for c in reversed(world.commits) if c.generation == generation), None), world


def _stage(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    tried = world.tried(actor)
    assert tried is not None
    late = {actor} if tried.state not in OPEN and not tried.stopped else set()
    yield None, replace(world, stages=world.stages | {actor}, late=world.late | late)


def _discard(world: World, actor: str, guards: frozenset[str], attempt: str) -> Iterator[Answer]:
    # Never what a version refers to: the log is asked, not the ledger.
    landed = any(commit.attempt == attempt for commit in world.commits)
    there = attempt in world.stages
    yield int(there and not landed), world if landed else replace(world, stages=world.stages - {attempt})


def _begin(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    """Delta: a snapshot, with its token registered."""
    yield (len(world.commits), world.generation, world.rows, actor in world.stages), world


def _send(world: World, actor: str, guards: frozenset[str], sent: Sent) -> Iterator[Answer]:
    """Delta: the next file of the log is put there by one; the others find it, and look whether it concerns them."""
    after = landed(world, sent, guards)
    yield (("conflict",), world) if after is None else (("landed",), after)


def landed(world: World, sent: Sent, guards: frozenset[str]) -> World | None:
    """The world with this commit in it; None if another one moved its token first."""
    since = world.commits[sent.read :]
    if since and "register" in guards:
        return None
    # Files that the snapshot showed are taken out; what came since stays, unless it was seen.
    kept = [row for row in world.rows if row not in sent.seen]
    rows = tuple(sorted([*kept, sent.commit.attempt]))
    return replace(world, commits=(*world.commits, sent.commit), rows=rows)


def _lock(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    """PostgreSQL: SELECT … FOR UPDATE of the token's row."""
    if "lock" in guards and world.lock not in (None, actor):
        return
    found = (len(world.commits), world.generation, actor in world.stages)
    yield found, replace(world, lock=actor) if "lock" in guards else world


def _unlock(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    yield None, buried(world, actor)


def _write(world: World, actor: str, guards: frozenset[str]) -> Iterator[Answer]:
    """PostgreSQL: DELETE sees what is committed when it begins; INSERT is seen by nobody yet."""
    yield None, replace(world, deleting=(*world.deleting, (actor, world.rows)))


def _commit(world: World, actor: str, guards: frozenset[str], commit: Commit) -> Iterator[Answer]:
    deleted = dict(world.deleting)[actor]
    rows = tuple(sorted([*(row for row in world.rows if row not in deleted), actor]))
    yield None, buried(replace(world, commits=(*world.commits, commit), rows=rows), actor)


_STEPS: dict[str, Callable[..., Iterator[Answer]]] = {
    "claim": _claim,
    "renew": _renew,
    "fix": _fix,
    "advance": _advance,
    "close": _close,
    "abandon": _abandon,
    "publish": _publish,
    "adopt": _adopt,
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
