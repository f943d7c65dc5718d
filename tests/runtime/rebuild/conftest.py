"""What a rebuild on the memory target needs, and the code whose columns differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import REVENUE, RuntimeSetup, revenue_task, summed

from twice.core.failure.failpoints import Crash
from twice.core.ports import Column
from twice.core.project.project import Project
from twice.core.table.rebuild import side_table
from twice.core.table.token import token_name
from twice.core.task import Task
from twice.ledgers.ledger import Ledger
from twice.runtime.rebuild.fill import Filled
from twice.runtime.rebuild.plan import Rebuild, RebuildRequest
from twice.runtime.rebuild.rebuild import RebuildResult, rebuild_table
from twice.targets.memory.rows import Rows

SIDE = side_table(REVENUE)


def as_text(orders: Rows) -> Rows:
    """Other columns: revenue retyped, and one more."""
    columns = (Column("order_date", "date"), Column("revenue", "string"), Column("orders", "bigint"))
    counts = {day: sum(1 for row in orders.rows if row[1] == day) for day in orders.values("order_date")}
    return Rows(columns, tuple((day, str(total), counts[day]) for day, total in summed(orders).rows))


def with_tax(orders: Rows) -> Rows:
    """One column more."""
    found = summed(orders)
    return Rows((*found.columns, Column("tax", "bigint")), tuple((*row, row[1] * 2) for row in found.rows))


@dataclass
class Rebuilding:
    """The runtime, and what a rebuild in it needs."""

    runtime: RuntimeSetup
    folder: Path
    reports: list[Filled]

    def of(self, declared: Task) -> Rebuild:
        context = self.runtime.context
        ledger = Ledger.open(f"sqlite:///{self.folder}/aside.db", self.runtime.clock)
        made = Rebuild(context, context, declared)
        project = Project("p", {**context.project.tasks, made.side_task.name: made.side_task})
        return replace(made, aside=replace(context, ledger=ledger, project=project))

    def rebuild(self, declared: Task, **request: Any) -> RebuildResult:
        try:
            return rebuild_table(self.of(declared), RebuildRequest(**request), self.reports.append)
        except Crash:  # who was killed does not renew its lease
            self.runtime.clock.ahead += timedelta(hours=1)
            raise

    def declare(self, function: Callable[..., Any] = as_text, **options: Any) -> Task:
        """The task with other code."""
        self.runtime.code[0] = function.__name__
        return self.runtime.declare(revenue_task(function, audits=(), **options))


@pytest.fixture
def shop(runtime: RuntimeSetup, tmp_path: Path) -> Iterator[Rebuilding]:
    """Two days published by the first code."""
    declared = runtime.declare(revenue_task())
    runtime.run(declared, "2026-06-09")
    runtime.run(declared, "2026-06-10")
    yield Rebuilding(runtime, tmp_path, [])


def generation(shop: Rebuilding, label: str) -> int:
    name = token_name("p", "revenue", label)
    return shop.runtime.target.published(REVENUE, [name]).generations[name]
