"""What depends on a table and would not follow if another one took its name: then it is not exchanged."""

from __future__ import annotations

from twice.core.closed import assert_never
from twice.core.names.first_few import first_few
from twice.errors import DeclarationError
from twice.targets.postgres.server.server import Connection
from twice.targets.postgres.table import Table

_LOOKS = {
    "view": """SELECT DISTINCT r.ev_class::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = %(oid)s
          AND r.ev_class <> %(oid)s""",
    "rule": "SELECT rulename::text FROM pg_rewrite WHERE ev_class = %(oid)s AND rulename <> '_RETURN'",
    "foreign key": """SELECT conrelid::regclass::text || '.' || conname FROM pg_constraint
        WHERE contype = 'f' AND confrelid = %(oid)s AND conrelid <> %(oid)s""",
    "trigger": "SELECT tgname::text FROM pg_trigger WHERE tgrelid = %(oid)s AND NOT tgisinternal",
    "policy": "SELECT polname::text FROM pg_policy WHERE polrelid = %(oid)s",
    "row-level security": "SELECT 'on' FROM pg_class WHERE oid = %(oid)s AND (relrowsecurity OR relforcerowsecurity)",
    # By name, by schema, or FOR ALL TABLES: whoever subscribes to it would get the rows of the side table, too.
    "publication": """SELECT p.pubname::text FROM pg_publication_tables p JOIN pg_class c ON c.relname = p.tablename
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = p.schemaname WHERE c.oid = %(oid)s""",
    "unlogged": "SELECT 'it' FROM pg_class WHERE oid = %(oid)s AND relpersistence <> 'p'",
    "tablespace": """SELECT DISTINCT t.spcname::text FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace
        WHERE c.oid = %(oid)s OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %(oid)s)""",
    "partition or child table": """SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %(oid)s
        UNION SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %(oid)s""",
    "extended statistics": "SELECT stxname::text FROM pg_statistic_ext WHERE stxrelid = %(oid)s",
}
_FILLED = """
    SELECT attname::text FROM pg_attribute WHERE attrelid = %(oid)s AND attnum > 0 AND NOT attisdropped
    AND (attgenerated <> '' OR attidentity <> '' OR atthasdef) ORDER BY attnum
"""


def refuse_dependents(connection: Connection, table: Table, given: set[str] | None = None) -> None:
    """Raise DeclarationError naming what stands in the way. `given`: the columns of the side table, in small letters;
    None where they are not known yet. Reads only."""
    if table.kind != "r":
        raise _refusal(table, "it is partitioned, or not a plain table")
    for kind, query in _LOOKS.items():
        found = [name for (name,) in connection.execute(query, {"oid": table.oid}).fetchall()]
        if found:
            raise _refusal(table, _sentence(kind, found))
    if given is None:
        return
    filled = [name for (name,) in connection.execute(_FILLED, {"oid": table.oid}).fetchall()]
    lost = [name for name in filled if name.lower() not in given]
    if lost:
        raise _refusal(table, f"the server fills {_some(lost)}, whose values would be regenerated")


def _sentence(kind: str, names: list[str]) -> str:
    match kind:
        case "view" | "foreign key":
            return f"the {kind} {_some(names)} refers to it and would stay with the old rows"
        case "rule" | "trigger" | "policy" | "extended statistics":
            return f"its {kind} {_some(names)} would not be on the new table"
        case "row-level security":
            return "it has row-level security, which the new table would not have: everybody would see its rows"
        case "unlogged":
            return "it is UNLOGGED, and the new table would not be"
        case "tablespace":
            return f"it, or an index of it, lies in the tablespace {_some(names)}, and the new table would not"
        case "publication":
            return f"the publication {_some(names)} sends it to others"
        case "partition or child table":
            return f"it is a part of, or has parts in, {_some(names)}"
        case _:
            assert_never(kind)  # type: ignore[arg-type]


def _some(names: list[str]) -> str:
    return first_few(sorted(names))


def _refusal(table: Table, why: str) -> DeclarationError:
    return DeclarationError(
        f"{table.relation} cannot be exchanged for another table: {why}",
        now="The table is unchanged.",
        fix="Change the columns in place (ALTER TABLE …, then run again), or drop that and make it again afterwards.",
    )
