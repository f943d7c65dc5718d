"""A whole run context without a JVM: the memory target, the plain engine and a SQLite ledger."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from twice import Daily, audit, read, task
from twice import replace as replace_rows
from twice.core.audit import Audit
from twice.core.failure.failpoints import Point, armed
from twice.core.ports import Column, Shape
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import assemble
from twice.core.results.run import RunRequest, RunResult
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote
from twice.core.task import Policy, TableName, Task
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.engine.plain import PlainEngine
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.run.run_task import run_task
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

COLUMNS = (Column("order_id", "bigint"), Column("order_date", "date"), Column("amount", "bigint"))
ORDERS = TableName("shop.orders")
REVENUE = TableName("shop.revenue")
DAY, NEXT = date(2026, 6, 9), date(2026, 6, 10)
UTC = timezone.utc


@dataclass
class ShiftedClock:
    """The ledger's clock, which a test may move."""

    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


def summed(orders: Rows) -> Rows:
    """Revenue by day: the job all these tests run."""
    totals: dict[date, int] = {}
    for _, day, amount in orders.rows:
        totals[day] = totals.get(day, 0) + amount
    return Rows((Column("order_date", "date"), Column("revenue", "bigint")), tuple(sorted(totals.items())))


def revenue_task(
    function: Callable[..., Any] = summed,
    audits: tuple[Audit, ...] = (audit.not_null("revenue"),),
    policy: Policy | None = None,
    lookback: int = 0,
) -> Task:
    scope = Daily("order_date", start="2026-01-01", lookback=lookback)
    inputs = {"orders": read("shop.orders", by="order_date")}
    declare = task(
        "shop.revenue", scope=scope, inputs=inputs, write=replace_rows(), audits=audits, policy=policy, name="revenue"
    )
    return declare(function)


@dataclass
class RuntimeSetup:
    """A run context, and the handles a test turns."""

    context: RunContext
    target: MemoryTarget
    clock: ShiftedClock
    code: list[str] = field(default_factory=lambda: ["v1"])
    pauses: list[float] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return cast(Ledger, self.context.ledger)  # the context knows it as a port; a test looks at all of it

    def declare(self, declared: Task) -> Task:
        self.context = replace(self.context, project=assemble("p", [declared]))
        return declared

    def run(self, declared: Task, day: str = "2026-06-09", kind: Any = "run", wait: Any = None) -> RunResult:
        return run_task(self.context, declared, (declared.scope.slice_of(day),), RunRequest(kind, wait))  # type: ignore[union-attr]

    def put_orders(self, *rows: tuple[int, date, int | None]) -> None:
        self.put(ORDERS, Rows(COLUMNS, tuple(rows)))

    def put(self, table: TableName, rows: Rows) -> None:
        """The whole table, as another system would write it."""
        into = self.target.prepare(table, Shape(rows.columns), Layout(), False)
        app = f"other/{table.name}"
        expected = self.target.published(table, [app]).generations
        plan = WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), (app,))
        staged = self.target.stage(table, rows, plan, f"other-{expected[app]}", into=into)
        self.target.commit(staged, expected, CommitNote("other", "run", {app: expected[app] + 1}))

    @property
    def revenue(self) -> list[tuple[Any, ...]]:
        """No rows, too, as long as nothing was published."""
        return [] if self.version is None else sorted(self.target.read(REVENUE).rows)

    @property
    def leftovers(self) -> list[str]:
        """Staged rows that no version refers to, of any attempt."""
        attempts = self.ledger.attempts("revenue")
        return [name for attempt in attempts for name in self.target.leftovers(REVENUE, attempt.id)]

    @property
    def version(self) -> int | None:
        return self.target.published(REVENUE, ()).version


def losing_the_reply(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    """The commit lands, its reply is lost, and the table cannot be read until the patch is undone."""

    def unreadable(*_: Any) -> Any:
        raise OSError("the warehouse is away")

    def lose(passed: Any) -> None:
        if passed is Point.AFTER_COMMIT:
            monkeypatch.setattr(runtime.target, "provenance", unreadable)
            raise ValueError("the reply was lost")

    return armed(lose)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory, where the system offers that: a ledger waits for the disk at each commit, and these tests make
    thousands. Not for all unit tests: a proof's enclosure has a /dev/shm of its own and would not find its folder."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="twice-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Migrated once: to migrate takes longer than most of these tests."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def runtime(tmp_path: Path, empty_ledger: Path) -> Iterator[RuntimeSetup]:
    clock = ShiftedClock()
    shutil.copy(empty_ledger, tmp_path / "ledger.db")
    made = make_runtime(Ledger.open(f"sqlite:///{tmp_path}/ledger.db", clock), tmp_path, clock)
    yield made
    made.ledger.close()


def make_runtime(ledger: Ledger, root: Path, clock: ShiftedClock) -> RuntimeSetup:
    target = MemoryTarget()
    code, pauses = ["v1"], list[float]()
    context = RunContext(
        project=assemble("p", []),
        ledger=ledger,
        engine=PlainEngine(),
        target_of=lambda table, session: target,
        code_hash=lambda declared: code[0],
        clock=clock,
        holder="test",
        root=root,
        pause=pauses.append,
        draw=lambda: 0.5,
    )
    runtime = RuntimeSetup(context, target, clock, code, pauses)
    runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, NEXT, 7))
    return runtime
