"""What a sealed stage holds, counted by the server: rows by slice, rows outside, keys that are NULL or come twice."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from twice.core.slice import Owners, Slice, labels_of
from twice.core.write import UpsertRows, WritePlan
from twice.errors import RowsOutsideSlice
from twice.targets.grain import as_utc
from twice.targets.keyed import null_key
from twice.targets.postgres.server.names import column
from twice.targets.postgres.server.server import Connection
from twice.targets.postgres.write.condition import owner_column
from twice.targets.postgres.write.order import as_stored, grouped, newest_first, staged_content
from twice.targets.postgres.write.stage import Stage, lost


def count(connection: Connection, stage: Stage, sealed: int, plan: WritePlan) -> dict[str, int]:
    """Rows by slice label. Refuses rows that no slice of the plan owns."""
    owner = owner_column(stage, plan.slices)
    if owner is None:
        (found,) = _one(connection, sql.SQL("SELECT count(*) FROM {}").format(stage.relation.sql))
        rows = {slice_.label: 0 for slice_ in plan.slices} | {plan.slices[0].label: found}
    else:
        rows = _by_value(connection, stage, owner, plan.slices)
    if sum(rows.values()) != sealed:
        raise lost(sealed, sum(rows.values()))
    return rows


def analyse(connection: Connection, stage: Stage) -> None:
    """Without it the server takes every stage for a small one, and its plans for a large one are slow."""
    connection.execute(sql.SQL("ANALYZE {}").format(stage.relation.sql))


def duplicates(connection: Connection, stage: Stage, sealed: int, columns: Sequence[str]) -> int:
    """How many rows share their values in these columns with an earlier one; NULL equals NULL."""
    rows, different = _one(
        connection,
        sql.SQL(
            "SELECT coalesce(sum(n), 0)::bigint, count(*) FROM (SELECT count(*) AS n FROM {} s GROUP BY {}) g"
        ).format(stage.relation.sql, _values(stage, columns)),
    )
    if rows != sealed:
        raise lost(sealed, rows)
    return rows - different


def deduplicate(connection: Connection, stage: Stage, sealed: int, verb: UpsertRows) -> tuple[int, int]:
    """Leave one row of each key: the newest, then the one whose text is the greatest, whatever order they came in.
    How many went, and of how many keys the best rows were equally new and not the same.
    Refuses NULL in a key, unless the strategy lets it be one."""
    key = [stage.table.spelled(name).name for name in verb.key]
    some_null = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(column(name)) for name in key)
    (nulls,) = _one(connection, sql.SQL("SELECT count(*) FROM {} WHERE {}").format(stage.relation.sql, some_null))
    if nulls and verb.null_keys == "refuse":
        raise null_key(verb)
    if not duplicates(connection, stage, sealed, key):
        return 0, 0
    ties = _ties(connection, stage, verb)
    order = sql.SQL('{}{} COLLATE "C" DESC').format(newest_first(stage, verb), staged_content(stage))
    gone = connection.execute(
        sql.SQL(
            "DELETE FROM {0} USING (SELECT ctid AS place, row_number() OVER (PARTITION BY {1} ORDER BY {2}) AS rank"
            " FROM {0} s) ranked WHERE {0}.ctid = ranked.place AND ranked.rank > 1"
        ).format(stage.relation.sql, _values(stage, key), order)
    ).rowcount
    connection.execute("UPDATE twice.stages SET rows = rows - %s WHERE attempt = %s", [gone, stage.attempt])
    return gone, ties


def _ties(connection: Connection, stage: Stage, verb: UpsertRows) -> int:
    if verb.newest_by is None:
        return 0
    stamp, text = as_stored(stage.table.spelled(verb.newest_by)), staged_content(stage)
    (ties,) = _one(
        connection,
        sql.SQL(
            'SELECT count(*) FILTER (WHERE tie) FROM (SELECT min({1} COLLATE "C") <> max({1} COLLATE "C") AS tie,'
            " row_number() OVER (PARTITION BY {0} ORDER BY {2}true) AS place FROM {4} s GROUP BY {0}, {3}) g"
            " WHERE place = 1"
        ).format(_values(stage, verb.key), text, newest_first(stage, verb), stamp, stage.relation.sql),
    )
    return ties


def _values(stage: Stage, columns: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(grouped(stage.table.spelled(name)) for name in columns)


def _by_value(connection: Connection, stage: Stage, owner: str, slices: Sequence[Slice]) -> dict[str, int]:
    found = connection.execute(
        sql.SQL("SELECT {0}, count(*) FROM {1} GROUP BY {0}").format(column(owner), stage.relation.sql)
    ).fetchall()
    rows, owners = {slice_.label: 0 for slice_ in slices}, Owners(slices)
    for value, number in found:
        slice_ = owners.of(value and as_utc(value))
        if slice_ is None:
            raise RowsOutsideSlice(
                f"the result has rows outside {labels_of(slices)}, e.g. with the value {value or 'NULL'}",
                fix="Filter the result to its slice.",
            )
        rows[slice_.label] += number
    return rows


def _one(connection: Connection, query: sql.Composed) -> tuple[int, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return tuple(row)
