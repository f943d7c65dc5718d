"""What all ways of publishing share: what is staged, the compare-and-swap, and what is true after a commit that may
have failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from twice.core.failure.failpoints import Point, hit
from twice.core.failure.interruption import uninterrupted
from twice.core.failure.root_cause import root_cause
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.table.token import CommitNote
from twice.core.write import Changes
from twice.errors import OutcomeUnknown, RunError, StageMismatch, TableChanged, TwiceError
from twice.targets.active_session import jobs_stopped
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.log.history import CommitHistory
from twice.targets.delta.log.jvm import is_conflict
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.table import Intent, Table
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.write.manifest import DataFile, check_whole

TRIES = 5
"""How often a commit is tried again when others changed the table meanwhile but not our tokens."""


class Raced(Exception):
    """Somebody else made the table that this commit was to make."""


@dataclass(frozen=True)
class Stage:
    """The handle of what is staged. `into`: the table as the commit will leave it. `files` are Delta's own added files
    on the internal path, else empty; `folder` is the hidden copy on the public one. `copied`: the copy's files.
    `publish`: the way it is published."""

    into: Intent
    path: str
    publish: Callable[[Publishing], Landed | Lost]
    files: tuple[Any, ...] = ()
    transaction: Any = None
    folder: str | None = None
    copied: tuple[DataFile, ...] = ()

    @property
    def table(self) -> Table:
        return self.into.table


@dataclass(frozen=True)
class Publishing:
    """One publish under way: what is staged for a table, the generation that each token must have (also those that are
    only watched), and the note that its commit carries."""

    table_handle: TableHandle
    staged: Staged
    expected: Mapping[str, int]
    note: CommitNote


@dataclass(frozen=True)
class Work:
    """What one commit is about to do: `added` and `removed` by the transaction it was prepared on, or (`public`) one
    call of Delta's own, which takes the note that its commit must carry. `predicate` describes it in the table's
    history.

    `staged` are the staged files it takes, `made` those that were written for this very commit: all of them must still
    be there. `spare` are the paths of staged ones that it does not take. `at`: the version that `changes` was counted
    on, where Delta begins its transaction itself, so that another writer may come in between.
    """

    added: Sequence[Any] = ()
    removed: Sequence[Any] = ()
    predicate: str | None = None
    changes: Changes | None = None
    staged: Sequence[DataFile] = ()
    made: Sequence[DataFile] = ()
    spare: tuple[str, ...] = ()
    public: Callable[[CommitNote], object] | None = None
    at: int | None = None

    @property
    def certain(self) -> Changes | None:
        """The changes, where they are known before the commit."""
        return self.changes if self.public is None else None

    def counted(self, version: int) -> Changes | None:
        """The changes, if the commit of this version did just these."""
        return self.changes if self.public is None or version - 1 == self.at else None


def compare_and_swap(
    publishing: Publishing,
    work: Callable[[Transaction], Work],
    lock: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Landed | Lost:
    """Compare every token, do the work that belongs to the version found, commit it together with the tokens.

    The table's lock is held by the caller, or (`lock`) around the commit alone: what others did since the transaction
    began is found by Delta's own check, and leads to another try on the version they left. Dying before Delta's commit
    publishes nothing, after it everything.
    """
    table_handle, staged = publishing.table_handle, publishing.staged
    for _ in range(TRIES):
        transaction = begun(table_handle, staged.handle, staged.plan.read_at)
        lost = moved(transaction, publishing.expected)
        if lost is not None:
            return lost
        todo = work(transaction)
        with lock():
            note = publishing.note.counted(todo.certain)
            outcome, failure = _commit(replace(publishing, note=note), transaction, todo)
        if isinstance(outcome, Landed):
            table_handle.delete(todo.spare)
            return replace(outcome, changes=todo.counted(outcome.version))
        if outcome is not None or _is_conflict(failure):
            table_handle.delete(file.path for file in todo.made)
        if outcome is not None:
            return outcome
        _check_again(failure, staged)
    raise RunError(
        f"other writers changed the same rows {TRIES} times while this run tried to publish",
        fix="Run the task again when they are done.",
    ) from failure


def locked_compare_and_swap(publishing: Publishing, work: Callable[[Transaction, Staged], Work]) -> Landed | Lost:
    """As `compare_and_swap`, under the table's lock from the first comparison on: for work that writes no file."""
    with publishing.table_handle.locked():
        return compare_and_swap(publishing, lambda transaction: work(transaction, publishing.staged))


def begun(table_handle: TableHandle, stage: Stage, at: int | None = None) -> Transaction:
    """A transaction on the newest version, or on an older one, that leaves the table as it is intended. On the public
    path Delta's own call does that."""
    transaction = table_handle.log.begin(at)
    if must_change(stage.into, transaction.table) and stage.folder is None:
        transaction.become(stage.into.metadata(transaction.metadata))
    return transaction


def must_change(into: Intent, now: Table | None) -> bool:
    """Whether the commit must make the table, or add columns to it. Raises TableChanged if it is another one than the
    rows were staged for: files with other columns, or that no constraint of its own was held against, must not enter
    it."""
    if now is not None and into.is_there(now):
        return False
    if now is None and into.before is None:
        return True
    if now is not None and into.before is not None and into.before.same_columns(now):
        return True
    raise TableChanged(
        "the table was made, or its columns or constraints were changed, by someone else while this run was at work",
        fix="Run the task again.",
    )


def _commit(
    publishing: Publishing, transaction: Transaction, todo: Work
) -> tuple[Landed | Lost | None, Exception | None]:
    """Under the lock. Dying here has published all of it or nothing."""
    table_handle, note = publishing.table_handle, publishing.note
    check_present(table_handle, (*todo.staged, *todo.made))
    lost = _moved_since(table_handle, publishing.staged, publishing.expected)
    if lost is not None:
        return lost, None
    if todo.public is not None and transaction.version < 0 and table_handle.log.table() is not None:
        return None, Raced()
    hit(Point.BEFORE_COMMIT)
    # Delta's own call writes and commits: once asked to end, its jobs are stopped, and then it is seen whether it had
    # come to its commit.
    with uninterrupted(at_once=None if todo.public is None else jobs_stopped(table_handle.session)):
        try:
            if todo.public is not None:
                todo.public(note)
            else:
                transaction.commit(todo.added, todo.removed, note.tokens, todo.predicate, note.to_json())
            failure = None
        except Exception as error:  # noqa: BLE001 - whatever was raised, the table says what is true
            failure = error
        else:
            hit(Point.AFTER_COMMIT)
        return landed_or_not(publishing, failure), failure


def moved(transaction: Transaction, expected: Mapping[str, int]) -> Lost | None:
    """Compare, on the very transaction that commits and for every token: Delta then refuses to commit if one moves
    between this look and the commit."""
    found = transaction.generations(expected)
    if found == dict(expected):
        return None
    table = transaction.table
    return Lost(Published(table.version if table else None, found))


def _moved_since(table_handle: TableHandle, staged: Staged, expected: Mapping[str, int]) -> Lost | None:
    """Compare again, under the lock: that Delta refuses a commit whose token moved rests on calls that are not its API,
    and one that stops to count would publish a copy without a sound."""
    handle, read_at = staged.handle, staged.plan.read_at
    version, found = table_handle.log.generations(staged.plan.compared)
    if found != dict(expected):
        return Lost(Published(version, found))
    if handle.folder is not None and read_at not in (None, version):
        raise out_of_date()  # the internal path's transaction began on that version, and Delta detects it
    return None


def check_present(table_handle: TableHandle, staged: Sequence[DataFile]) -> None:
    """Whatever took staged files away since (VACUUM, a process that was stopped for days, executors that wrote to disks
    of their own; or they were collected, and a mark that was set back is where a slow attempt expects it): a commit
    would publish a slice that cannot be read."""
    check_whole(staged, table_handle.sizes(file.path for file in staged))


def landed_or_not(publishing: Publishing, cause: Exception | None = None) -> Landed | Lost | None:
    """Read the table afresh (the caller holds its lock): ours landed, another's did, or (None) neither.

    A lost reply is normal, and Delta may even call its own commit a conflict; only the table knows.
    """
    session, staged, note = publishing.table_handle.session, publishing.staged, publishing.note
    stage: Stage = staged.handle
    try:
        log, token_name = Log(session, stage.path), staged.plan.token_names[0]
        version, _ = log.generations(())
        # The commit itself shows it more cheaply than the log as a whole: it carries the rows and the tokens together.
        if version is not None:
            history = CommitHistory(session, stage.path)
            found = history.find(token_name, note.generations[token_name], version, oldest=max(0, stage.table.version))
            if found is not None and found[1].attempt == staged.attempt:
                return Landed(found[0])
        version, generations = log.generations(staged.plan.token_names)
        if version is not None and any(generations[name] != publishing.expected[name] for name in generations):
            return Lost(Published(version, generations))
    except Exception as error:  # noqa: BLE001 - whatever stops us from reading, we do not know
        raise OutcomeUnknown(
            "the commit's reply was lost and the table cannot be read",
            now="The table may or may not hold the new rows.",
            fix="Run the task again: it will look first.",
        ) from (cause or error)
    return None


def _check_again(failure: Exception | None, staged: Staged) -> None:
    """Nothing landed and no token moved. Only a conflict with other writers is worth another try."""
    if failure is None:
        raise StageMismatch("the commit was reported done but the table does not have it", fix="Run the task again.")
    if isinstance(failure, TwiceError):
        raise failure
    if not _is_conflict(failure):
        raise RunError(f"the commit failed: {root_cause(failure)}", fix="Run the task again.") from failure
    if staged.plan.read_at is not None:
        raise out_of_date() from failure


def _is_conflict(failure: Exception | None) -> bool:
    return isinstance(failure, Raced) or is_conflict(failure)


def out_of_date() -> TableChanged:
    return TableChanged(
        "the table changed after this task read it, so its rows may be out of date", fix="Run the task again."
    )
