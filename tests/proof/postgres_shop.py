"""A run context over a PostgreSQL target without Spark: three ways to write, orders every process knows by heart."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg

from twice import Daily, Since, append_once, audit, merge, read, replace, task
from twice.core.ports import Column, Shape
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import assemble
from twice.core.results.run import RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.engine.plain import PlainEngine
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.holder import this_process
from twice.runtime.run.run_task import run_task
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget
from twice.targets.postgres.frames.plain import PlainFrames
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.target import PostgresTarget

COLUMNS = (Column("order_id", "bigint"), Column("order_date", "date"), Column("amount", "bigint"))
ORDERS = TableName("shop.orders")
FIRST, DAYS, PER_DAY = date(2026, 1, 1), 400, 6
DAILY = Daily("order_date", start="2026-01-01", batch=True)
CUT = {"orders": read("shop.orders", by="order_date")}
NEW = {"orders": read("shop.orders", by="order_id")}


@task("postgres:shop.replaced", scope=DAILY, inputs=CUT, write=replace(), audits=[audit.unique("order_id")])
def replaced(orders: Rows) -> Rows:
    return orders


@task("postgres:shop.merged", scope=DAILY, inputs=CUT, write=merge("order_id", order="any"))
def merged(orders: Rows) -> Rows:
    return orders


@task("postgres:shop.appended", scope=Since("order_id", initial=0), inputs=NEW, write=append_once())
def appended(orders: Rows) -> Rows:
    return orders


TASKS: dict[str, Any] = {each.name: each for each in (replaced, merged, appended)}


def day(index: int) -> str:
    return (FIRST + timedelta(days=index)).isoformat()


def orders(days: int = DAYS) -> tuple[tuple[int, date, int], ...]:
    return tuple(
        (1 + index * PER_DAY + at, FIRST + timedelta(days=index), (index * 7 + at) % 97)
        for index in range(days)
        for at in range(PER_DAY)
    )


def target_of(url: str) -> PostgresTarget:
    return PostgresTarget(Server("postgres", url, Limits(lock=30, statement=60)), PlainFrames())


def open_context(url: str, ledger: Path, days: int) -> RunContext:
    """`days`: so many are in the source by now."""
    source, target = MemoryTarget(), target_of(url)
    into = source.prepare(ORDERS, Shape(COLUMNS), Layout(), False)
    plan = WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), ("orders",))
    staged = source.stage(ORDERS, Rows(COLUMNS, orders(days)), plan, "orders", into=into)
    source.commit(staged, {"orders": 0}, CommitNote("orders", "run", {"orders": 1}))
    return RunContext(
        project=assemble("proof", TASKS.values()),
        ledger=Ledger.open(f"sqlite:///{ledger}"),
        engine=PlainEngine(),
        target_of=lambda table, session: target if table.format else source,
        code_hash=lambda declared: "code",
        clock=SYSTEM_CLOCK,
        holder=this_process(),
        root=ledger.parent,
    )


def run(context: RunContext, name: str, index: int) -> RunResult:
    declared = TASKS[name]
    date_ = None if name == "appended" else day(index)
    return run_task(context, declared, (slice_named(declared.scope, date_),), RunRequest(wait=timedelta(seconds=30)))


def ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchall()


def wrong(url: str, published: dict[str, int]) -> list[str]:
    """What is not as a clean run leaves it, read without any of the code under test. `published`: how many days of
    each table; the newest order is left to the next run by what has no key."""
    found: list[str] = []
    for name, days in published.items():
        clean = [row for row in orders(days) if name != "appended" or row[0] < days * PER_DAY]
        rows = sorted(ask(url, f"SELECT order_id, order_date, amount FROM shop.{name}"))
        if rows != clean:
            found.append(f"{name}: {len(rows)} rows of {len(clean)}, {len(set(rows) - set(clean))} that are none")
        commits = ask(
            url,
            f"SELECT count(*) FROM twice.commits JOIN twice.tables t ON t.id = table_id WHERE t.name = 'shop.{name}'",
        )
        if commits != [(days,)]:
            found.append(f"{name}: {commits[0][0]} commits for {days} generations")
    left = ask(url, "SELECT relname FROM pg_class WHERE relname LIKE 'stage\\_%'")
    left += ask(url, "SELECT attempt FROM twice.stages UNION ALL SELECT attempt FROM twice.takes")
    return found + [f"left behind: {left[:3]}"] * bool(left)
