"""A table exchanged for its side table, by two renames in the transaction that moves its tokens."""

from __future__ import annotations

from secrets import token_hex

from psycopg import sql

from twice.core.failure.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.table.rebuild import not_ours
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import Kept, ReplaceTable, WritePlan
from twice.errors import TableChanged
from twice.targets.postgres import state
from twice.targets.postgres.server.lock import lock_alone
from twice.targets.postgres.server.names import LONGEST, Relation, column, relation_of
from twice.targets.postgres.server.server import Connection, Server
from twice.targets.postgres.table import Intent, Table, changed, find
from twice.targets.postgres.write.condition import outside
from twice.targets.postgres.write.exchange.carry import (
    carry_over,
    carry_replica_identity,
    carry_rights,
    parts_of,
    rename_parts,
    replica_identity,
)
from twice.targets.postgres.write.exchange.dependents import refuse_dependents
from twice.targets.postgres.write.stage import Stage
from twice.targets.side import another_side


def stage_table(server: Server, into: Intent, table: TableName, plan: WritePlan, attempt: str) -> Staged:
    """Nothing is staged: the side table is the stage. It gets the indexes and constraints that it lacks, while nobody
    waits for it. Dying here leaves some of that done."""
    verb = _verb(plan)
    with server.transaction(doing=f"preparing the exchange of {table}") as connection:
        side = _side(connection, table, verb)
        refuse_dependents(connection, into.table, {name.lower() for name in side.names})
        carry_over(connection, into.table, side)
        state.expect_tokens(connection, into.entry.id, plan.compared)
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(side.relation.sql)).fetchone()
        assert row is not None
    hit(Point.IN_STAGE)
    counts = {slice_.label: 0 if at else row[0] for at, slice_ in enumerate(plan.slices)}
    stage = Stage(attempt, side.relation, "", into)
    return Staged(table, plan, attempt, row[0], counts, (), handle=stage)


def exchange(
    connection: Connection, staged: Staged, now: Table, found: dict[str, int], note: CommitNote
) -> Landed | Lost:
    """With the tokens locked and compared. Waits for readers of the table, in turns; those that come once it has the
    table wait for the commit."""
    verb, table = _verb(staged.plan), staged.table
    assert now.entry is not None
    _refuse_other_rows(connection, now, verb)
    for relation in (now.relation, _side(connection, table, verb).relation):
        lock_alone(connection, relation)
    # Only now: whoever published a slice that the plan does not know has held the table until it committed.
    held = state.tokens(connection, now.entry.id, verb.prefix)
    newer = {name: each.generation for name, each in held.items() if name not in staged.plan.compared}
    if newer:
        return Lost(Published(now.entry.version, {**found, **newer}))
    side = _side(connection, table, verb)
    if find(connection, now.relation) != now:
        raise changed()
    refuse_dependents(connection, now, {name.lower() for name in side.names})
    _refuse_lost_rows(connection, now, side, verb.kept)
    parts, identity = parts_of(connection, now.oid), replica_identity(connection, now.oid)
    carry_rights(connection, now, side)
    old = Relation(now.relation.schema, f"{now.relation.name[: LONGEST - 14]}_old_{token_hex(4)}")
    _rename(connection, now.relation, old)
    _rename(connection, side.relation, now.relation)
    connection.execute(sql.SQL("DROP TABLE {}").format(old.sql))
    rename_parts(connection, now.relation, side.oid, parts)
    carry_replica_identity(connection, now.relation, identity)
    state.exchange(connection, now.entry, side.entry)
    version = state.move(connection, now.entry.id, side.oid, note)
    return Landed(version)


def drop_side(connection: Connection, table: TableName, token_name: str) -> None:
    held = find(connection, relation_of(table))
    if held is None:
        return
    entry = held.entry
    if entry is None or not state.generations(connection, entry.id, [token_name])[token_name]:
        raise not_ours(table)
    connection.execute(sql.SQL("DROP TABLE {}").format(held.relation.sql))
    state.leave(connection, entry.id)


def _side(connection: Connection, table: TableName, verb: ReplaceTable) -> Table:
    side = find(connection, relation_of(TableName(verb.side, table.format)))
    if side is None or side.entry is None or side.entry.version != verb.at:
        raise another_side(verb)
    if verb.side_id not in (None, str(side.entry.id)):
        raise another_side(verb)
    return side


def _refuse_other_rows(connection: Connection, now: Table, verb: ReplaceTable) -> None:
    """What others have added to a table since it was copied would be gone. While its rows are counted, readers go on
    and writers wait."""
    if verb.rows is None:
        return
    connection.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(now.relation.sql))
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(now.relation.sql)).fetchone()
    if row != (verb.rows,):
        raise TableChanged("others wrote the table after it was copied", fix="Run it again when they are done.")


def _refuse_lost_rows(connection: Connection, now: Table, side: Table, kept: Kept | None) -> None:
    """What others have added since the losses were counted would be gone without a word: they move no version. With the
    table to itself: nobody adds a row any more. Slices are looked up beside their column's index, if it has one."""
    if kept is None:
        return
    lost = _lost(now, side, kept)
    row = connection.execute(sql.SQL("SELECT count(*) FROM ({}) gone").format(lost)).fetchone()
    assert row is not None
    if row[0] > kept.lost:
        raise TableChanged(
            f"others wrote rows to {now.relation} that would be gone, after it was looked at",
            fix="Run it again when they are done.",
        )


def _lost(now: Table, side: Table, kept: Kept) -> sql.Composable:
    table, beside = now.relation.sql, side.relation.sql
    if kept.key:
        wanted = [side.spelled(name) for name in kept.key]
        mine = [sql.SQL("{}::{}").format(column(now.spelled(each.name).name), sql.SQL(each.native)) for each in wanted]
        theirs = [column(each.name) for each in wanted]
        form = sql.SQL("SELECT {} FROM {} EXCEPT SELECT {} FROM {}")
        return form.format(sql.SQL(", ").join(mine), table, sql.SQL(", ").join(theirs), beside)
    if not kept.owned:
        return sql.SQL("SELECT 1 FROM {}").format(table)
    bounds = kept.owned[0].bounds
    assert bounds is not None, kept
    return sql.SQL("SELECT 1 FROM {} WHERE {}").format(table, outside(kept.owned, now.spelled(bounds.column).name))


def _rename(connection: Connection, relation: Relation, to: Relation) -> None:
    connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(relation.sql, sql.Identifier(to.name)))


def _verb(plan: WritePlan) -> ReplaceTable:
    assert isinstance(plan.write, ReplaceTable), plan.write
    return plan.write
