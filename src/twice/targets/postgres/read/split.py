"""Cutting one read into parts that run at once: ranges of a table's pages, which together are every row once.

Within one snapshot a row lies in one place, so ranges of places neither lose nor double it, whatever its key is: as
long as nobody rewrites the table. The run's lock keeps others from that (snapshot.py), and every part makes sure of it
(reading.py).
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from twice.targets.postgres.server.names import Relation
from twice.targets.postgres.server.server import Connection

PAGES = 256
"""A part smaller than this (2 MB) is not worth a connection."""


def split(connection: Connection, relation: Relation, query: str, parts: int) -> list[str]:
    """A condition for each part; one empty condition where the query is better left whole: a view, a partitioned
    table, few pages, or conditions that an index answers."""
    row = connection.execute(
        "SELECT c.relkind::text, pg_relation_size(c.oid) / current_setting('block_size')::int FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        [relation.schema, relation.name],
    ).fetchone()
    if row is None or row[0] not in ("r", "m"):
        return [""]
    wanted = min(parts, row[1] // PAGES)
    if wanted < 2 or not _reads_everything(connection, query):
        return [""]
    return ranges(row[1], wanted)


def ranges(pages: int, parts: int) -> list[str]:
    """The last one has no end: pages may have been added, and rows of ours may not lie there, but none is missed."""
    bounds = [pages * at // parts for at in range(parts)]
    conditions = [f"ctid >= '({low},0)'::tid AND ctid < '({high},0)'::tid" for low, high in pairwise(bounds)]
    return [*conditions, f"ctid >= '({bounds[-1]},0)'::tid"]


def _reads_everything(connection: Connection, query: str) -> bool:
    """Whether the server would read the whole table for this query: then it may as well be read by several."""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchone()
    assert row is not None
    plans = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return "Seq Scan" in _nodes(plans[0]["Plan"])


def _nodes(plan: dict[str, Any]) -> list[str]:
    return [plan["Node Type"], *(name for inner in plan.get("Plans", ()) for name in _nodes(inner))]
