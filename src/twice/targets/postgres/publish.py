"""The one transaction that publishes: tokens locked and compared, rows exchanged, tokens moved, commit, read back.

Whoever else wants to publish one of these slices waits for the lock on its token, also on a slice without rows, where
there is no row to lock. The reply to a COMMIT can get lost: then the tokens are read again, under the same lock, which
waits until the server has made up its mind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import psycopg

from twice.core.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.token import Note
from twice.core.write import Changes, UpsertRows
from twice.errors import EnvironmentProblem, OutcomeUnknown, StageMismatch, TwiceError
from twice.targets.postgres import state
from twice.targets.postgres.server import Connection, Server
from twice.targets.postgres.stage import Stage, check_whole, drop
from twice.targets.postgres.table import find
from twice.targets.postgres.trouble import AGAIN, explained, is_line
from twice.targets.postgres.verbs import carry_out

_TRIES = 4
_PATIENCE_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""How long a server that does not answer after a COMMIT is waited for, before the outcome is called unknown."""


class _Unsure(Exception):
    """COMMIT was sent and no answer came. `changes` is what it would have done."""

    def __init__(self, changes: Changes | None) -> None:
        super().__init__("no answer to COMMIT")
        self.changes = changes


def publish(server: Server, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """Dying here has published all or nothing: a transaction without its COMMIT is undone by the server."""
    doing = f"publishing to {staged.table}"
    for left in reversed(range(_TRIES)):
        try:
            end = _transact(server, staged, expected, note)
        except _Unsure as unsure:
            settled = _settle(server, staged, expected, note, unsure)
            if settled is not None:
                return settled
            end = None
        except psycopg.Error as error:
            if error.sqlstate not in AGAIN or not left:
                raise explained(error, server.name, doing) from error
            end = None
        if end is not None:
            return _read_back(server, staged, note, end)
    raise StageMismatch("the server gave no answer to COMMIT several times, and did not commit", fix="Run it again.")


def _transact(server: Server, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """One try. Every error but `_Unsure` means that nothing was published."""
    stage: Stage = staged.handle
    with server.connected() as connection:
        connection.autocommit = False
        server.begin(connection, "read committed")
        end = _exchange(connection, stage, staged, expected, note)
        if isinstance(end, Lost):
            connection.rollback()
            return end
        hit(Point.BEFORE_COMMIT)
        try:
            connection.commit()
        except psycopg.Error as error:
            if not is_line(error):
                raise  # a constraint that is checked at the very end: the server has said no
            raise _Unsure(end.changes) from error
    hit(Point.AFTER_COMMIT)
    return end


def _exchange(
    connection: Connection, stage: Stage, staged: Staged, expected: Mapping[str, int], note: Note
) -> Landed | Lost:
    verb, entry = staged.plan.write, stage.table.entry
    assert entry is not None
    before = state.generations(connection, entry.id, staged.plan.app_ids, lock=True)
    # The table's own row last, and held only if somebody else's publish could change what this one counts on.
    alone = isinstance(verb, UpsertRows) or stage.read_at is not None
    now = find(connection, stage.table.relation)
    held = state.entry(connection, now.relation, now.oid, lock=alone) if now else None
    if now is None or held is None or held.id != entry.id or now.columns != stage.table.columns:
        raise StageMismatch("the table was changed or made anew after the rows were staged", fix="Run the task again.")
    if before != dict(expected):
        return Lost(Published(held.version, before))
    if stage.read_at not in (None, held.version):
        raise StageMismatch(
            "the table changed after this task read it, so its rows may be out of date", fix="Run the task again."
        )
    sealed = check_whole(connection, stage, lock=True)
    changes = carry_out(connection, stage, sealed, verb)
    changes = changes and replace(changes, deduplicated=staged.deduplicated)
    version = state.move(connection, entry.id, replace(note, changes=changes))
    drop(connection, stage.attempt)
    return Landed(version, changes)


def _settle(
    server: Server, staged: Staged, expected: Mapping[str, int], note: Note, unsure: _Unsure
) -> Landed | Lost | None:
    """How a COMMIT ended whose answer was lost; None if it did not commit and may be tried again."""
    stage: Stage = staged.handle
    assert stage.table.entry is not None
    reason: TwiceError | None = None
    for pause in _PATIENCE_S:
        time.sleep(pause)
        try:
            with server.transaction() as connection:
                # The lock waits for a transaction that is still being committed.
                found = state.generations(connection, stage.table.entry.id, staged.plan.app_ids, lock=True)
                version = state.landed(connection, stage.table.entry.id, note)
        except TwiceError as error:
            reason = error
            continue
        if version is not None:
            return Landed(version, unsure.changes)
        return None if found == dict(expected) else Lost(Published(None, found))
    raise OutcomeUnknown(
        "the server gave no answer to COMMIT, and cannot be asked how it ended",
        now="The table may already hold these rows.",
        fix="Run it again when the server answers: it will look first.",
    ) from reason


def _read_back(server: Server, staged: Staged, note: Note, end: Landed | Lost) -> Landed | Lost:
    """Success is said only of what another connection can see."""
    if isinstance(end, Lost):
        return end
    stage: Stage = staged.handle
    assert stage.table.entry is not None
    try:
        with server.transaction() as connection:
            version = state.landed(connection, stage.table.entry.id, note)
    except EnvironmentProblem:
        return end  # the server itself said that it committed; it went down after that
    if version != end.version:
        raise OutcomeUnknown(
            "the server said that it committed, but the table does not have it",
            now="The table may have been restored to an older state.",
            fix="Look at the server, then run again: it will look first.",
        )
    return end
