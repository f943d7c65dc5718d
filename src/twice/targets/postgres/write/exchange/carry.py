"""What a table has beside its rows, and its side table must have too: indexes, constraints, rights, comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from twice.core.table.rebuild import SIDE
from twice.errors import DeclarationError
from twice.targets.postgres.server.names import LONGEST, Relation, column
from twice.targets.postgres.server.server import Connection
from twice.targets.postgres.table import Table

_INDEX = re.compile(r"CREATE (?P<unique>UNIQUE )?INDEX .+? ON (?:ONLY )?.+? (?P<rest>USING .+)", re.DOTALL)
_OF_CONSTRAINTS = """
    SELECT c.conname::text, pg_get_constraintdef(c.oid), ARRAY(
        SELECT a.attname::text FROM unnest(c.conkey) k (attnum) JOIN pg_attribute a
        ON a.attrelid = c.conrelid AND a.attnum = k.attnum), c.contype::text
    FROM pg_constraint c WHERE c.conrelid = %s AND c.contype IN ('p', 'u', 'x', 'c', 'f') ORDER BY c.conname
"""
_OF_INDEXES = """
    SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), ARRAY(
        SELECT a.attname::text FROM unnest(i.indkey::smallint[]) k (attnum) JOIN pg_attribute a
        ON a.attrelid = i.indrelid AND a.attnum = k.attnum), c.relname::text
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s
    AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid)
    ORDER BY c.relname
"""
_GRANTS = """
    SELECT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_get_userbyid(a.grantee)::text END, a.privilege_type,
           a.is_grantable, t.attname::text
    FROM (SELECT NULL::name AS attname, relacl AS acl, relowner FROM pg_class WHERE oid = %(oid)s
          UNION ALL SELECT p.attname, p.attacl, c.relowner FROM pg_attribute p JOIN pg_class c ON c.oid = p.attrelid
          WHERE p.attrelid = %(oid)s AND p.attacl IS NOT NULL AND NOT p.attisdropped) t,
         LATERAL aclexplode(t.acl) a WHERE a.grantee <> t.relowner
"""


@dataclass(frozen=True)
class Part:
    """An index or a constraint. `is_` is how it is defined, without its name."""

    name: str
    is_: str
    columns: tuple[str, ...]
    kind: str


def parts_of(connection: Connection, oid: int) -> tuple[Part, ...]:
    constraints = [
        Part(name, text, tuple(columns), kind)
        for name, text, columns, kind in connection.execute(_OF_CONSTRAINTS, [oid]).fetchall()
    ]
    indexes = []
    for _, text, columns, name in connection.execute(_OF_INDEXES, [oid]).fetchall():
        found = _INDEX.fullmatch(text)
        assert found is not None, text
        indexes.append(Part(name, f"{found['unique'] or ''}INDEX {found['rest']}", tuple(columns), "i"))
    return (*constraints, *indexes)


def carry_over(connection: Connection, table: Table, side: Table) -> None:
    """Give the side table what it lacks, before it is exchanged: nobody waits for that. A second call finds nothing to
    do. Raises DeclarationError where something names a column that is gone. Dying here leaves some of it done."""
    held = parts_of(connection, side.oid)
    there = {part.is_ for part in held} | {part.name for part in held}
    for part in parts_of(connection, table.oid):
        _refuse_lost_columns(table, side, part)
        name = _side_name(part)
        if there & {part.is_, name}:
            continue
        if part.kind == "i":
            unique, _, rest = part.is_.partition("INDEX ")
            form, what = f"CREATE {unique}INDEX {{1}} ON {{0}} ", rest
        else:
            form, what = "ALTER TABLE {0} ADD CONSTRAINT {1} ", part.is_
        connection.execute(sql.SQL(form).format(side.relation.sql, sql.Identifier(name)) + sql.SQL(what))
    strict = connection.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND attnotnull AND NOT attisdropped",
        [table.oid],
    ).fetchall()
    for (name,) in strict:
        if name in side.names:
            connection.execute(
                sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET NOT NULL").format(side.relation.sql, column(name))
            )


def _side_name(part: Part) -> str:
    """Until the exchange: the names of indexes are those of a schema. What is defined by a column of another type is
    written otherwise, so that it is found by its name."""
    return f"{part.name[: LONGEST - len(SIDE)]}{SIDE}"


def _refuse_lost_columns(table: Table, side: Table, part: Part) -> None:
    gone = [name for name in part.columns if name not in side.names]
    if gone:
        what = "index" if part.kind == "i" else "constraint"
        raise DeclarationError(
            f"{table.relation} cannot be exchanged: its {what} {part.name} is on {', '.join(gone)}, which the result "
            "does not give any more",
            now="The table is unchanged.",
            fix=f"Drop the {what} first, then run the rebuild again.",
        )


def carry_rights(connection: Connection, table: Table, side: Table) -> None:
    """In the transaction that exchanges them: owner, grants, storage settings, comments, defaults as they are now."""
    owner = connection.execute(
        "SELECT pg_get_userbyid(relowner)::text, reloptions FROM pg_class WHERE oid = %s", [table.oid]
    ).fetchone()
    assert owner is not None
    side_sql = side.relation.sql
    for grantee in {row[0] for row in _grants(connection, side.oid)}:
        connection.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(side_sql, _role(grantee)))
    for grantee, privilege, grantable, name in _grants(connection, table.oid):
        if name is not None and name not in side.names:
            continue
        what = sql.SQL(privilege) if name is None else sql.SQL(f"{privilege} ({{}})").format(column(name))
        more = sql.SQL(" WITH GRANT OPTION" if grantable else "")
        connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(what, side_sql, _role(grantee)) + more)
    if owner[1]:
        options = sql.SQL(", ").join(map(sql.SQL, owner[1]))
        connection.execute(sql.SQL("ALTER TABLE {} SET ({})").format(side_sql, options))
    _carry_words(connection, table, side)
    connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(side_sql, sql.Identifier(owner[0])))


def _carry_words(connection: Connection, table: Table, side: Table) -> None:
    row = connection.execute("SELECT obj_description(%s, 'pg_class')", [table.oid]).fetchone()
    if row is not None and row[0] is not None:
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(side.relation.sql, sql.Literal(row[0])))
    found = connection.execute(
        "SELECT a.attname::text, col_description(a.attrelid, a.attnum), pg_get_expr(d.adbin, d.adrelid)"
        " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''",
        [table.oid],
    ).fetchall()
    for name, words, default in found:
        if name not in side.names:
            continue
        if words is not None:
            connection.execute(
                sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(side.relation.sql, column(name), sql.Literal(words))
            )
        if default is not None:
            connection.execute(
                sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT ").format(side.relation.sql, column(name))
                + sql.SQL(default)
            )


def rename_parts(connection: Connection, relation: Relation, oid: int, before: Sequence[Part]) -> None:
    """Indexes and constraints get the names that those of the table had before."""
    names = {part.is_: part.name for part in before} | {_side_name(part): part.name for part in before}
    for part in parts_of(connection, oid):
        wanted = names.get(part.name) or names.get(part.is_, part.name)
        if wanted == part.name:
            continue
        if part.kind == "i":
            change = sql.SQL("ALTER INDEX {} RENAME TO {}").format(
                sql.Identifier(relation.schema, part.name), sql.Identifier(wanted)
            )
        else:
            change = sql.SQL("ALTER TABLE {} RENAME CONSTRAINT {} TO {}").format(
                relation.sql, sql.Identifier(part.name), sql.Identifier(wanted)
            )
        connection.execute(change)


def replica_identity(connection: Connection, oid: int) -> tuple[str, str | None]:
    """By which columns a table tells its subscribers of a changed row: the catalog's letter, and the index it names."""
    row = connection.execute(
        "SELECT c.relreplident::text, (SELECT x.relname::text FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid"
        " WHERE i.indrelid = c.oid AND i.indisreplident) FROM pg_class c WHERE c.oid = %s",
        [oid],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def carry_replica_identity(connection: Connection, relation: Relation, identity: tuple[str, str | None]) -> None:
    """Once the indexes of the new table have the names of the old one's."""
    letter, index = identity
    how: sql.Composable | None = {"f": sql.SQL("FULL"), "n": sql.SQL("NOTHING")}.get(letter)
    if letter == "i" and index is not None:
        how = sql.SQL("USING INDEX {}").format(sql.Identifier(index))
    if how is not None:
        connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY ").format(relation.sql) + how)


def _grants(connection: Connection, oid: int) -> list[tuple[str | None, str, bool, str | None]]:
    return connection.execute(_GRANTS, {"oid": oid}).fetchall()


def _role(name: str | None) -> sql.Composable:
    return sql.SQL("PUBLIC") if name is None else sql.Identifier(name)
