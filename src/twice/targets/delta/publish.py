"""What all ways of publishing share: what is staged, the compare-and-swap, and what is true after a commit that may
have failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from twice.core.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.token import Note
from twice.core.write import Changes
from twice.errors import OutcomeUnknown, RunError, StageMismatch
from twice.targets.delta.history import History
from twice.targets.delta.internal import Log, Transaction, is_conflict
from twice.targets.delta.site import Site
from twice.targets.delta.table import Table

TRIES = 5
"""How often a commit is tried again when others changed the table meanwhile but not our tokens."""


@dataclass(frozen=True)
class Stage:
    """The handle of what is staged. `files` are Delta's own added files on the internal path, else empty;
    `folder` is the hidden copy on the public one. `read_at`: the version of this very table the rows came from.
    `publish`: the way it is published."""

    table: Table
    path: str
    publish: Callable[[Site, Staged, Mapping[str, int], Note], Landed | Lost]
    files: tuple[Any, ...] = ()
    transaction: Any = None
    folder: str | None = None
    read_at: int | None = None


@dataclass(frozen=True)
class Work:
    """What one commit is about to do. `told` describes it to people.

    `staged` are the added files that were staged: they must still be there. `made` are the paths of files that were
    written for this very commit; `spare` those of staged ones that it does not take.
    """

    added: Sequence[Any] = ()
    removed: Sequence[Any] = ()
    told: str | None = None
    changes: Changes | None = None
    staged: Sequence[Any] = ()
    made: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()


def swap(
    site: Site,
    staged: Staged,
    expected: Mapping[str, int],
    note: Note,
    work: Callable[[Transaction], Work],
    lock: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Landed | Lost:
    """Compare every token, do the work that belongs to the version found, commit it together with the tokens.

    The table's lock is held by the caller, or (`lock`) around the commit alone: what others did since the transaction
    began is found by Delta's own check, and leads to another try on the version they left. Dying before Delta's commit
    publishes nothing, after it everything.
    """
    handle: Stage = staged.handle
    for _ in range(TRIES):
        transaction = site.log.begin(handle.read_at)
        lost = moved(transaction, expected)
        if lost is not None:
            return lost
        check_unchanged(handle, transaction.table)
        todo = work(transaction)
        with lock():
            outcome, failure = _commit(site, staged, expected, replace(note, changes=todo.changes), transaction, todo)
        if isinstance(outcome, Landed):
            site.delete(todo.spare)
            return replace(outcome, changes=todo.changes)
        if outcome is not None or is_conflict(failure):
            site.delete(todo.made)
        if outcome is not None:
            return outcome
        _check_again(failure, handle)
    raise RunError(
        f"other writers changed the same rows {TRIES} times while this run tried to publish",
        fix="Run the task again when they are done.",
    ) from failure


def _commit(
    site: Site,
    staged: Staged,
    expected: Mapping[str, int],
    note: Note,
    transaction: Transaction,
    todo: Work,
) -> tuple[Landed | Lost | None, Exception | None]:
    """Under the lock. Dying here has published all of it or nothing."""
    check_present(site, todo.staged)
    hit(Point.BEFORE_COMMIT)
    try:
        transaction.commit(todo.added, todo.removed, note.generations, todo.told, note.to_json())
        failure = None
    except Exception as error:  # noqa: BLE001 - whatever was raised, the table says what is true
        failure = error
    else:
        hit(Point.AFTER_COMMIT)
    return landed_or_not(site.session, staged, expected, note, failure), failure


def moved(transaction: Transaction, expected: Mapping[str, int]) -> Lost | None:
    """Compare, on the very transaction that commits and for every token: Delta then refuses to swap if one moves
    between this look and the commit."""
    found = transaction.generations(expected)
    if found == dict(expected):
        return None
    table = transaction.table
    return Lost(Published(table.version if table else None, found))


def check_unchanged(stage: Stage, now: Table | None) -> None:
    """Files staged for other columns must not enter the table."""
    if now is None or not stage.table.same_columns(now):
        raise StageMismatch(
            "the table's columns were changed by someone else while this run was at work",
            fix="Run the task again.",
        )


def check_present(site: Site, files: Sequence[Any]) -> None:
    """A mark that was set back may be where a slow attempt expects it, although its files were collected since."""
    gone = site.missing(str(file.path()) for file in files)
    if gone:
        raise StageMismatch(
            f"{len(gone)} of the staged files are gone, collected after another attempt had published",
            fix="Run the task again.",
        )


def landed_or_not(
    session: SparkSession, staged: Staged, expected: Mapping[str, int], note: Note, cause: Exception | None = None
) -> Landed | Lost | None:
    """Read the table afresh (the caller holds its lock): ours landed, another's did, or (None) neither.

    A lost reply is normal, and Delta may even call its own commit a conflict; only the table knows.
    """
    stage: Stage = staged.handle
    try:
        log, app = Log(session, stage.path), staged.plan.app_ids[0]
        version, _ = log.generations(())
        # The commit itself tells more cheaply than the log as a whole: it carries the rows and the tokens together.
        if version is not None:
            history = History(session, stage.path)
            found = history.find(app, note.generations[app], version, oldest=stage.table.version)
            if found is not None and found[1].attempt == staged.attempt:
                return Landed(found[0])
        version, generations = log.generations(staged.plan.app_ids)
        if version is not None and generations != dict(expected):
            return Lost(Published(version, generations))
    except Exception as error:  # noqa: BLE001 - whatever stops us from reading, we do not know
        raise OutcomeUnknown(
            "the commit's reply was lost and the table cannot be read",
            now="The table may or may not hold the new rows.",
            fix="Run the task again: it will look first.",
        ) from (cause or error)
    return None


def _check_again(failure: Exception | None, handle: Stage) -> None:
    """Nothing landed and no token moved. Only a conflict with other writers is worth another try."""
    if failure is None:
        raise StageMismatch("the commit was reported done but the table does not have it", fix="Run the task again.")
    if not is_conflict(failure):
        raise RunError(f"the commit failed: {str(failure).splitlines()[0]}", fix="Run the task again.") from failure
    if handle.read_at is not None:
        raise out_of_date() from failure


def out_of_date() -> StageMismatch:
    return StageMismatch(
        "the table changed after this task read it, so its rows may be out of date", fix="Run the task again."
    )
