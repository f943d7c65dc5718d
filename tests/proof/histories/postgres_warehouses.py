"""The histories on a real PostgreSQL: two databases, the ledger in a third."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timezone
from pathlib import Path
from typing import Any

import psycopg

from twice.core.ports import Target
from twice.core.task import TableName
from twice.engine.plain import PlainEngine
from twice.targets.postgres.frames.plain import PlainFrames
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.target import PostgresTarget

from .memory_warehouses import SOURCE, Sources
from .sides import Sides
from .steps import Row


class PostgresWarehouses(Sides):
    shows_foreign = False

    def __init__(self, ledger: str, databases: Sequence[str], folder: Path) -> None:
        self.sides = [Sources(), Sources()]
        self.databases = list(databases)
        self.targets = [
            PostgresTarget(Server("postgres", url, Limits(lock=30, statement=60)), PlainFrames()) for url in databases
        ]
        super().__init__(ledger, folder, PlainEngine(), self._target_of, prefix="postgres:")

    def arrive(self, side: int, rows: Sequence[Row]) -> None:
        self.sides[side].append(rows)

    def delete(self, side: int, table: str, id_: int) -> None:
        self._ask(side, f"DELETE FROM {table} WHERE id = {id_} RETURNING id")

    def withdraw(self, side: int, id_: int) -> None:
        self.sides[side].delete(SOURCE.name, id_)

    def rows(self, side: int, table: str) -> Counter[Row]:
        if not self._exists(side, table):
            return Counter()
        rows = self._ask(side, f"SELECT id, day, seen, amount FROM {table}")
        return Counter((row[0], row[1], row[2].astimezone(timezone.utc), row[3]) for row in rows)

    def columns(self, side: int, table: str) -> list[str]:
        schema, name = table.split(".")
        asked = f"table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
        if not self._exists(side, table) or not self._ask(side, f"SELECT 1 FROM {table} LIMIT 1"):
            return []
        return [row[0] for row in self._ask(side, f"SELECT column_name FROM information_schema.columns WHERE {asked}")]

    def left(self, side: int, task: str) -> list[str]:
        stages = self._ask(side, "SELECT relname FROM pg_class WHERE relname LIKE 'stage\\_%'")
        stages += self._ask(side, "SELECT attempt FROM twice.stages UNION ALL SELECT attempt FROM twice.takes")
        return [str(each[0]) for each in stages]

    def _exists(self, side: int, table: str) -> bool:
        return bool(self._ask(side, f"SELECT to_regclass('{table}')")[0][0])

    def _ask(self, side: int, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.databases[side], autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    def _target_of(self, side: int, table: TableName, _session: Any) -> Target:
        return self.targets[side] if table.format else self.sides[side].target
