"""What must hold at every moment, of everything that is reported, and after the next run: the promises, as checks."""

from __future__ import annotations

from itertools import pairwise

from tests.proof.protocol.actor import Actor, Ended
from tests.proof.protocol.system import OPEN, Commit, System


class Broken(AssertionError):
    """A promise does not hold; the message lists the steps that lead there."""


def check_step(before: System, after: System) -> None:
    """Whoever is where, whoever has died."""
    last = after.commits[-1:]
    _promise(after.rows == tuple(c.attempt for c in last), f"the table shows the rows of {after.rows}")
    numbers = [commit.generation for commit in after.commits]
    _promise(numbers == list(range(1, len(numbers) + 1)), f"generations were published as {numbers}")
    for commit in after.commits[len(before.commits) :]:
        tried = before.tried(commit.attempt)
        _promise(tried is not None and tried.intended, f"{commit.attempt} landed without its intent recorded")
        _promise(commit.attempt in before.stages, f"{commit.attempt} landed without its files")
    _promise(set(after.rows) <= after.stages, "files that the table refers to were deleted")
    _promise(not _repeated(after.commits), "the same code on the same inputs was published twice")
    landed = {commit.attempt for commit in after.commits}
    for tried in after.tries:
        _promise(tried.state != "published" or tried.id in landed, f"{tried.id} is recorded but did not land")
    _promise(after.run.generation <= after.generation, "the ledger is ahead of the table")
    _promise(after.run.generation >= before.run.generation, "the ledger forgot what is in the table")


def check_report(actor: Actor, end: Ended, system: System) -> None:
    """What an attempt says of itself is true."""
    mine = [commit for commit in system.commits if commit.attempt == actor.id]
    others = [commit for commit in system.commits if commit.attempt != actor.id]
    if end.how in ("published", "changed", "identical"):
        _promise(bool(mine), f"{actor.id} says published and is not in the table")
        _promise(actor.passes, f"{actor.id} published rows that fail their audit")
    elif end.how == "already published":
        same = any(commit.intention[0] == actor.code for commit in others)
        _promise(same and not mine, f"{actor.id} says already published, and nobody published it")
    elif end.how == "superseded":
        _promise(bool(others) and not mine, f"{actor.id} says superseded, and nobody was first")
    elif end.how != "recovered":
        _promise(end.how in ("busy", "lease-lost", "audit-failed"), f"{actor.id} ended as {end.how}")
        _promise(not mine, f"{actor.id} ended as {end.how} and landed")
        _promise(end.how != "audit-failed" or not actor.passes, f"{actor.id} failed no audit")


def check_converged(actor: Actor, end: Ended, system: System) -> None:
    """After a whole run, alone: its rows are there, once, and the ledger says so. What others left is known."""
    check_report(actor, end, system)
    _promise(end.how in ("published", "already published"), f"the next run ends as {end.how}")
    _promise(system.commits[-1].intention[0] == actor.code, "the next run leaves another's rows")
    _promise(system.run.generation == system.generation, "the ledger is behind after a whole run")
    stuck = [
        t.id for t in system.tries if t.state in OPEN and t.expected is not None and t.expected < system.generation
    ]
    _promise(not stuck, f"{stuck} must lose and stay open")
    landed = {commit.attempt for commit in system.commits}
    known = {t.id for t in system.tries if t.state in OPEN or not t.discarded}
    # A process that was settled, woke up, staged all the same and then died leaves files that only VACUUM finds.
    _promise(system.stages <= landed | known | system.late, "staged files are left that nobody will ever collect")


def _repeated(commits: tuple[Commit, ...]) -> bool:
    return any(one.intention == two.intention and two.kind == "run" for one, two in pairwise(commits))


def _promise(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)
