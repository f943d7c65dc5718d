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
from psycopg import sql

from twice.core.failure.failpoints import Point, hit
from twice.core.failure.interruption import uninterrupted
from twice.core.failure.sqlstate import RETRY_AT_ONCE
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.table.token import CommitNote
from twice.core.write import ReplaceTable, UpsertRows
from twice.errors import OutcomeUnknown, TableChanged, TwiceError
from twice.targets.postgres import state
from twice.targets.postgres.server.errors import explained, is_connection_lost
from twice.targets.postgres.server.lock import lock_alone
from twice.targets.postgres.server.names import column
from twice.targets.postgres.server.server import Connection, Server
from twice.targets.postgres.table import Intent, Table, changed, establish, find, wait_for_makers
from twice.targets.postgres.write.exchange.exchange import exchange
from twice.targets.postgres.write.stage import Stage, check_whole, drop
from twice.targets.postgres.write.verbs import carry_out

_TRIES = 4
_PATIENCE_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""How long a server that does not answer after a COMMIT is waited for, before the outcome is called unknown."""


def publish(server: Server, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
    """Dying here has published all or nothing: a transaction without its COMMIT is undone by the server."""
    doing = f"publishing to {staged.table}"
    for left in reversed(range(_TRIES)):
        try:
            end = _transact(server, staged, expected, note)
        except psycopg.Error as error:
            if error.sqlstate not in RETRY_AT_ONCE or not left:
                raise explained(error, server.name, doing) from error
            end = None
        if end is not None:
            return _read_back(server, staged, note, end)
    raise TableChanged("the server gave no answer to COMMIT several times, and did not commit", fix="Run it again.")


def _transact(server: Server, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost | None:
    """One try; None if it did not commit and may be tried again. Every error but OutcomeUnknown means that nothing was
    published. From COMMIT on until its end is known, Ctrl-C waits."""
    stage: Stage = staged.handle
    with server.connected() as connection:
        connection.autocommit = False
        server.begin(connection, "read committed")
        end = _exchange(connection, stage, staged, expected, note)
        if isinstance(end, Lost):
            connection.rollback()
            return end
        hit(Point.BEFORE_COMMIT)
        with uninterrupted():
            try:
                connection.commit()
            except psycopg.Error as error:
                if not is_connection_lost(error):
                    raise  # a constraint that is checked at the very end: the server refused it
                return _settle(server, staged, expected, note, end)
            hit(Point.AFTER_COMMIT)
    return end


def _exchange(
    connection: Connection, stage: Stage, staged: Staged, expected: Mapping[str, int], note: CommitNote
) -> Landed | Lost:
    verb, read_at, into = staged.plan.write, staged.plan.read_at, stage.into
    number = into.entry.id or establish(connection, into, staged.plan.compared)
    before = state.locked(connection, number, staged.plan, note)
    # The table's own row last, and held only if somebody else's publish could change what this one counts on.
    alone = isinstance(verb, UpsertRows) or read_at is not None
    now = find(connection, stage.table.relation)
    held = state.entry(connection, now.relation, now.oid, lock=alone) if now else None
    if now is None or held is None or held.id != number:
        raise changed()
    if before != dict(expected):
        return Lost(Published(held.version, before))
    if read_at not in (None, held.version):
        raise TableChanged(
            "the table changed after this task read it, so its rows may be out of date", fix="Run the task again."
        )
    if isinstance(verb, ReplaceTable):
        return exchange(connection, staged, now, before, note)
    _widen(connection, into, now)
    sealed = check_whole(connection, stage, lock=True)
    done = carry_out(connection, stage, sealed, verb, compare=note.kind == "restate")
    changes = done.changes
    if changes is not None:
        changes = replace(changes, deduplicated=staged.deduplicated, ties=changes.ties + staged.ties)
    version = state.move(connection, number, now.oid, replace(note.counted(changes), changed=done.changed))
    drop(connection, stage.attempt)
    return Landed(version, changes, done.changed)


def _widen(connection: Connection, into: Intent, now: Table) -> None:
    """Add the columns that the table lacks, and give a decimal its new digits, in the transaction that publishes.
    Raises TableChanged if it is another table than the rows were staged for."""
    now = now.given({name.lower() for name in into.table.names})
    if now.columns == into.table.columns:
        return
    if into.before is None or now.columns != into.before.columns:
        raise changed()
    known = {each.name: each for each in now.columns}
    steps = [
        sql.SQL("ALTER COLUMN {} TYPE {}" if each.name in known else "ADD COLUMN {} {}").format(
            column(each.name), sql.SQL(each.native)
        )
        for each in into.table.columns
        if known.get(each.name) != each
    ]
    lock_alone(connection, now.relation)
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(now.relation.sql, sql.SQL(", ").join(steps)))


def _settle(
    server: Server, staged: Staged, expected: Mapping[str, int], note: CommitNote, end: Landed
) -> Landed | Lost | None:
    """How a COMMIT ended whose answer was lost; None if it did not commit and may be tried again."""
    stage: Stage = staged.handle
    reason: TwiceError | None = None
    for pause in _PATIENCE_S:
        time.sleep(pause)
        try:
            with server.transaction() as connection:
                # The lock waits for a transaction that is still being committed.
                number = _number(connection, stage)
                found = state.generations(connection, number, staged.plan.token_names, lock="UPDATE")
                version = state.landed(connection, number, note)
        except TwiceError as error:
            reason = error
            continue
        if version is not None:
            return replace(end, version=version)
        moved = any(found[name] != expected[name] for name in found)
        return Lost(Published(None, found)) if moved else None
    raise OutcomeUnknown(
        "the server gave no answer to COMMIT, and cannot be asked how it ended",
        now="The table may already hold these rows.",
        fix="Run it again when the server answers: it will look first.",
    ) from reason


def _read_back(server: Server, staged: Staged, note: CommitNote, end: Landed | Lost) -> Landed | Lost:
    """Success is reported only for what another connection can see."""
    if isinstance(end, Lost):
        return end
    try:
        with server.transaction() as connection:
            version = state.landed(connection, _number(connection, staged.handle), note)
    except TwiceError:
        return end  # the server itself reported that it committed; what went wrong came after that
    if version != end.version:
        raise OutcomeUnknown(
            "the server reported that it committed, but the table does not have it",
            now="The table may have been restored to an older state.",
            fix="Look at the server, then run again: it will look first.",
        )
    return end


def _number(connection: Connection, stage: Stage) -> int:
    """Of the table's entry; 0 if there is none, since the publish that would have made it did not commit."""
    if stage.into.entry.id:
        return stage.into.entry.id
    wait_for_makers(connection, stage.table.relation)
    now = find(connection, stage.table.relation)
    return now.entry.id if now and now.entry else 0
