"""What twice keeps beside the tables it writes: their versions, the tokens of their slices, and whose commits these
were. It changes only in the transactions that change the tables, so it is never ahead of them or behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Literal

from twice.core.ports import Held
from twice.core.table.owner import CUTS, TAKEOVERS, TOKENS, Owner, Ownership, cuts, takeovers
from twice.core.table.token import CommitNote
from twice.core.write import WritePlan
from twice.targets.postgres.server.names import SCHEMA, Relation, ours
from twice.targets.postgres.server.server import Connection

_TABLES = {
    # `place` says which table it was when its tokens were last written: server, database, the table's own number, and
    # the number of `twice.tables` (not in entries from before).
    "tables": """id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, place text NOT NULL,
        version bigint NOT NULL DEFAULT 0, slice_column text, grain text""",
    # The rows a publish locks. They are there before it begins: a row that is not there cannot be waited for.
    "tokens": """table_id bigint NOT NULL, app_id text COLLATE "C" NOT NULL, generation bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (table_id, app_id)""",
    "commits": """table_id bigint NOT NULL, version bigint NOT NULL, attempt text NOT NULL, note text NOT NULL,
        committed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (table_id, version)""",
    "generations": """table_id bigint NOT NULL, app_id text COLLATE "C" NOT NULL, generation bigint NOT NULL,
        version bigint NOT NULL, PRIMARY KEY (table_id, app_id, version)""",
    "stages": """attempt text PRIMARY KEY, table_id bigint NOT NULL, rows bigint,
        staged_at timestamptz NOT NULL DEFAULT now()""",
    # Logged, as all of these are, while a stage is not: what a stage must hold is known after a crash that emptied it.
    "takes": """attempt text NOT NULL, take bigint NOT NULL, rows bigint NOT NULL, PRIMARY KEY (attempt, take)""",
}
_PLACE = """SELECT concat_ws('/', (pg_control_system()).system_identifier, d.oid, %s, to_regclass(%s)::oid)
    FROM pg_database d WHERE d.datname = current_database()"""

Lock = Literal["UPDATE", "SHARE"]
"""How a token's row is locked: alone, or beside others that do not move it either."""


@dataclass(frozen=True)
class Entry:
    """What is kept of one table."""

    id: int
    version: int
    slice_column: str | None
    grain: str | None


def install(connection: Connection) -> None:
    """Make our schema and tables if they are missing. Dying here leaves none or some; the next call makes the rest."""
    missing = [name for name in _TABLES if not _there(connection, name)]
    if not missing:
        return
    # Two that begin at once: the second waits here, and then finds everything.
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('twice'))")
    if connection.execute("SELECT to_regnamespace(%s)", [SCHEMA]).fetchone() == (None,):
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    for name in missing:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {ours(name)} ({_TABLES[name]})")


def entry(connection: Connection, relation: Relation, oid: int, lock: bool = False) -> Entry | None:
    """What is kept of this very table; None for one that twice never wrote, or that was dropped and recreated."""
    if not _there(connection, "tables"):
        return None
    waiting = " FOR NO KEY UPDATE" if lock else ""
    found = connection.execute(
        f"SELECT id, version, slice_column, grain, place FROM twice.tables WHERE name = %s{waiting}", [str(relation)]
    ).fetchone()
    if found is None or not _same_place(found[4], _place(connection, oid)):
        return None
    return Entry(*found[:4])


def enter(connection: Connection, relation: Relation, oid: int, slice_column: str | None, grain: str | None) -> Entry:
    """Begin to keep a table. What was kept of another table of this name is forgotten: its rows are gone too."""
    old = connection.execute("SELECT id FROM twice.tables WHERE name = %s", [str(relation)]).fetchone()
    if old is not None:
        leave(connection, old[0])
    made = connection.execute(
        "INSERT INTO twice.tables (name, place, slice_column, grain) VALUES (%s, %s, %s, %s) RETURNING id",
        [str(relation), _place(connection, oid), slice_column, grain],
    ).fetchone()
    assert made is not None
    return Entry(made[0], 0, slice_column, grain)


def exchange(connection: Connection, entry: Entry, side: Entry | None) -> None:
    """The table is laid out as its side table was, of which nothing is kept any more. Its tokens stay."""
    assert side is not None
    connection.execute(
        "UPDATE twice.tables SET slice_column = %s, grain = %s WHERE id = %s", [side.slice_column, side.grain, entry.id]
    )
    leave(connection, side.id)


def leave(connection: Connection, table: int) -> None:
    """Nothing is kept any more of a table that is gone."""
    for name in ("tokens", "generations", "commits"):
        connection.execute(f"DELETE FROM {ours(name)} WHERE table_id = %s", [table])
    connection.execute("DELETE FROM twice.tables WHERE id = %s", [table])


def expect_tokens(connection: Connection, table: int, token_names: Sequence[str]) -> None:
    """Make the tokens' rows, at generation 0, so that a publish can lock them."""
    connection.execute(
        "INSERT INTO twice.tokens (table_id, app_id) SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING",
        [table, sorted(token_names)],
    )


def locked(connection: Connection, table: int, plan: WritePlan, note: CommitNote) -> dict[str, int]:
    """The generations of all tokens that the plan compares, locked until the end of the transaction: those that it only
    watches beside others that do so, so that runs on other slices do not wait. All in one order, whoever locks them, so
    that two never wait for each other."""
    found: dict[str, int] = {}
    watched = set(plan.watched).difference(note.tokens)
    for shared, names in groupby(sorted(plan.compared, key=str.encode), watched.__contains__):
        found |= generations(connection, table, list(names), lock="SHARE" if shared else "UPDATE")
    return found


def generations(
    connection: Connection, table: int, token_names: Sequence[str], lock: Lock | None = None
) -> dict[str, int]:
    """The tokens' generations, 0 where there is none. Locked in one order, so that two never wait for each other."""
    waiting = f" ORDER BY app_id FOR {lock}" if lock else ""
    found = connection.execute(
        f"SELECT app_id, generation FROM twice.tokens WHERE table_id = %s AND app_id = ANY(%s){waiting}",
        [table, list(token_names)],
    ).fetchall()
    return {**dict.fromkeys(token_names, 0), **dict(found)}


def move(connection: Connection, table: int, oid: int, note: CommitNote) -> int:
    """One more version of the table, with the note's tokens: the last statements before the commit."""
    version = bump(connection, table, oid)
    token_names, numbers = list(note.generations), list(note.generations.values())
    connection.execute(
        "UPDATE twice.tokens t SET generation = m.generation"
        " FROM unnest(%s::text[], %s::bigint[]) m (app_id, generation)"
        " WHERE t.table_id = %s AND t.app_id = m.app_id",
        [token_names, numbers, table],
    )
    connection.execute(
        "INSERT INTO twice.generations SELECT %s, m.app_id, m.generation, %s"
        " FROM unnest(%s::text[], %s::bigint[]) m (app_id, generation)",
        [table, version, token_names, numbers],
    )
    if note.beside:
        connection.execute(
            "INSERT INTO twice.tokens (table_id, app_id, generation) SELECT %s, m.app_id, m.generation"
            " FROM unnest(%s::text[], %s::bigint[]) m (app_id, generation)"
            " ON CONFLICT (table_id, app_id) DO UPDATE SET generation = excluded.generation",
            [table, list(note.beside), list(note.beside.values())],
        )
    connection.execute(
        "INSERT INTO twice.commits (table_id, version, attempt, note) VALUES (%s, %s, %s, %s)",
        [table, version, note.attempt, note.to_json()],
    )
    return version


def bump(connection: Connection, table: int, oid: int) -> int:
    """It is known by the numbers it has now: one that was restored or copied, and is dropped later, is not taken for
    restored once more."""
    row = connection.execute(
        "UPDATE twice.tables SET version = version + 1, place = %s WHERE id = %s RETURNING version",
        [_place(connection, oid), table],
    ).fetchone()
    assert row is not None
    return int(row[0])


def landed(connection: Connection, table: int, note: CommitNote) -> int | None:
    """The version that the commit with this note made; None if it did not commit."""
    token_name, generation = next(iter(note.generations.items()))
    row = connection.execute(
        "SELECT version FROM twice.generations JOIN twice.commits USING (table_id, version) WHERE table_id = %s"
        " AND app_id = %s AND generation = %s AND attempt = %s ORDER BY version DESC LIMIT 1",
        [table, token_name, generation, note.attempt],
    ).fetchone()
    return None if row is None else int(row[0])


def note(connection: Connection, table: int, token_name: str, generation: int) -> CommitNote | None:
    row = connection.execute(
        "SELECT c.note, c.version FROM twice.generations g JOIN twice.commits c USING (table_id, version)"
        " WHERE g.table_id = %s AND g.app_id = %s AND g.generation = %s ORDER BY g.version DESC LIMIT 1",
        [table, token_name, generation],
    ).fetchone()
    found = None if row is None else CommitNote.from_json(row[0])
    return None if row is None or found is None else replace(found, version=int(row[1]))


def tokens(connection: Connection, table: int, prefix: str) -> dict[str, Held]:
    """Every published token whose name begins so."""
    found = connection.execute(
        "SELECT DISTINCT ON (t.app_id) t.app_id, t.generation, c.version, c.note FROM twice.tokens t"
        " LEFT JOIN twice.generations g USING (table_id, app_id, generation) LEFT JOIN twice.commits c"
        " USING (table_id, version) WHERE t.table_id = %s AND starts_with(t.app_id, %s) AND t.generation > 0"
        " ORDER BY t.app_id, c.version DESC NULLS LAST",
        [table, prefix],
    ).fetchall()
    return {
        token_name: Held(generation, version, CommitNote.from_json(text))
        for token_name, generation, version, text in found
    }


def forget(connection: Connection, table: int, before: datetime) -> int:
    """Commits that gave no token the generation it has now; how many. The newest stays: its version is the table's."""
    old = (
        "SELECT c.version FROM twice.commits c JOIN twice.tables t ON t.id = c.table_id WHERE c.table_id = %s"
        " AND c.committed_at < %s AND c.version < t.version AND NOT EXISTS (SELECT FROM twice.generations g"
        " JOIN twice.tokens k USING (table_id, app_id, generation)"
        " WHERE g.table_id = c.table_id AND g.version = c.version)"
    )
    versions = [version for (version,) in connection.execute(old, [table, before]).fetchall()]
    for name in ("generations", "commits"):
        connection.execute(
            f"DELETE FROM {ours(name)} WHERE table_id = %s AND version = ANY(%s)",
            [table, versions],
        )
    return len(versions)


def owners(connection: Connection, table: int) -> Ownership:
    """Whose tokens there are, counted by the server: a table may have many thousands."""
    counted = connection.execute(
        "SELECT project, task, sum(slices), array_agg(label) FROM ("
        "  SELECT split_part(app_id, '/', 2) AS project, split_part(app_id, '/', 3) AS task, count(*) AS slices,"
        "  min(split_part(app_id, '/', 4)) AS label FROM twice.tokens"
        "  WHERE table_id = %s AND generation <> 0 AND starts_with(app_id, %s)"
        "  GROUP BY 1, 2, translate(split_part(app_id, '/', 4), '123456789', '000000000')"
        ") AS forms GROUP BY 1, 2",
        [table, TOKENS],
    ).fetchall()
    others = dict(
        connection.execute(
            "SELECT app_id, generation FROM twice.tokens WHERE table_id = %s AND generation <> 0"
            " AND (starts_with(app_id, %s) OR starts_with(app_id, %s))",
            [table, TAKEOVERS, CUTS],
        ).fetchall()
    )
    return Ownership(
        {Owner(project, task): int(count) for project, task, count, _ in counted},
        takeovers(others),
        {Owner(project, task): frozenset(labels) for project, task, _, labels in counted},
        cuts(others),
    )


def installed(connection: Connection) -> bool:
    return all(_there(connection, name) for name in _TABLES)


def _there(connection: Connection, name: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", [str(ours(name))]).fetchone() != (None,)


def _place(connection: Connection, oid: int) -> str:
    row = connection.execute(_PLACE, [oid, str(ours("tables"))]).fetchone()
    assert row is not None
    return str(row[0])


def _same_place(kept: str, now: str) -> bool:
    """A table of another number in the same database was recreated, unless our own tables have another number too:
    then everything was restored together, tokens and rows. In another database or on another server it was copied
    together."""
    server, database, table, *tables = kept.split("/")
    here, there, found, *ours_now = now.split("/")
    if (server, database) != (here, there) or table == found:
        return True
    return bool(tables) and tables != ours_now
