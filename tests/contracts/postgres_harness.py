"""How the suite, and the tests of PostgreSQL's own faults, reach a PostgreSQL target without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg
from tests.contracts.asked_twice import asked_twice
from tests.contracts.target_suite import COLUMNS, DAY, REVENUE, Row, ordered, plan_of, prepare, sale

from twice.core.ports import Column, Staged, Target
from twice.core.task import TableName
from twice.targets.memory.rows import Rows
from twice.targets.postgres.frames.plain import PlainFrames
from twice.targets.postgres.reader import PostgresReader
from twice.targets.postgres.server.names import stage_of
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.target import PostgresTarget

ROWS = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "us", "2.00")]


class PostgresHarness:
    one_slice_only = False
    keeps_versions = False
    appends = True
    nested = False

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        self.url = url
        self.limits = limits or Limits(lock=20, statement=60)

    def target(self) -> Target:
        server = Server("postgres", self.url, self.limits)
        return asked_twice(PostgresTarget(server, PlainFrames()), lambda: closing(PostgresReader(server)))

    def frame(self, target: Any, columns: Sequence[Column], rows: Sequence[Row], parts: int = 0) -> Any:
        return Rows(tuple(columns), tuple(rows))

    def rows(self, frame: Any) -> list[Row]:
        return ordered(frame.rows)

    def seen(self, target: Target, table: TableName) -> list[Row]:
        return self.rows(target.read(table))

    def files(self, table: TableName) -> Mapping[str, str]:
        """Each stored row by its place, with the transaction that wrote it: the least that is rewritten."""
        return {str(place): f"{by} {row}" for place, by, row in self.ask(f"SELECT ctid, xmin, t FROM {table.name} t")}

    def leftovers(self, table: TableName, attempt: str) -> Sequence[str]:
        found = self.ask(
            "SELECT relname FROM pg_class WHERE relname = %s UNION ALL SELECT take::text FROM twice.takes"
            " WHERE attempt = %s UNION ALL SELECT attempt FROM twice.stages WHERE attempt = %s",
            stage_of(attempt).name,
            attempt,
            attempt,
        )
        return [name for (name,) in found]

    def drop(self, table: TableName) -> None:
        self.ask(f"DROP TABLE {table.name}")

    def ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """One statement in a connection of its own, and the rows it gives."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters or None)
            return [] if cursor.description is None else cursor.fetchall()


def staged(harness: PostgresHarness, attempt: str, rows: list[Any] = ROWS) -> tuple[Any, Staged]:
    target = harness.target()
    prepare(target)
    return target, target.stage(REVENUE, harness.frame(target, COLUMNS, rows), plan_of(DAY), attempt)


def table(harness: PostgresHarness) -> list[Any]:
    return harness.rows(harness.target().read(REVENUE))
