"""What one snapshot of Delta's says of a table: its shape and its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from twice.targets.delta.log.table import Table, table_of

_NAMED = 400
"""So many tokens are asked for by their names."""


def table_at(snapshot: Any) -> Table | None:
    if snapshot.version() < 0:
        return None
    return table_of(snapshot.version(), snapshot.protocol().json(), snapshot.metadata().json())


def tokens_in(session: SparkSession, snapshot: Any, token_names: Sequence[str], *prefixes: str) -> dict[str, int]:
    """These tokens, those whose names begin so, and maybe more, by a job over the log: Delta's own look-up gathers all
    of them, and everything else too."""
    state = DataFrame(snapshot.stateDF(), session)
    app = state["txn.appId"]
    # Thousands of names take Spark longer to plan than the tokens that begin like them take to read.
    few = len(token_names) <= _NAMED
    wanted = app.isin(list(token_names)) if few else app.startswith(commonprefix(token_names))  # noqa: RUF071 - of characters
    for prefix in prefixes:
        wanted = wanted | app.startswith(prefix)
    return recorded_in(state.where(wanted))


def recorded_in(wanted: DataFrame) -> dict[str, int]:
    rows = wanted.selectExpr("txn.appId AS app", "txn.version AS version").collect()
    return {row.app: int(row.version) for row in rows}
