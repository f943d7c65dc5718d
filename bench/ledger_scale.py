"""A ledger with five million attempts against one with 400, and a plan of a hundred thousand hours.

    python -m bench.ledger_scale --json bench/results/ledger_scale.json

The old ledger has one task of 100,000 hours, each published 25 times and found right 25 times, and half a million
effects; the other side is the same question to a young ledger. Everything runs in one process: no JVM, the tables
are in memory. A plan is compared with its goal of 5 seconds, its memory with a bound of 500 MB (`tracemalloc`, in a
pass of its own, which makes everything slower).
"""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from bench.measuring import Row, arguments, interleaved, report
from tests.old_ledger import DAY_ONE, SLICES, grow_old, label_at
from tests.postgres_server import PostgresServer
from tests.runtime.conftest import ORDERS, RuntimeSetup, ShiftedClock, make_runtime

from twice import Hourly, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillRequest
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import Claim, ClaimRequest
from twice.core.ports import Column
from twice.core.project.project import assemble
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.backfill import plan_backfill, start
from twice.runtime.context import RunContext
from twice.runtime.staleness.kept import not_right
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

ATTEMPTS = 5_000_000
YOUNG = (400, 20)
"""Attempts and slices of the other side: enough to fill what is listed."""
GOAL = 2.0
PLAN_SECONDS, PLAN_MB = 5.0, 500.0
COLUMNS = (Column("at", "timestamp"), Column("amount", "bigint"))
BEFORE_ALL = datetime(2014, 1, 1, tzinfo=timezone.utc)
Ask = Callable[[int], object]


@task(
    "shop.sales",
    scope=Hourly("at", start="2015-01-01T00", batch=True),
    inputs={"orders": read("shop.orders", by="at")},
    write=replace_rows(),
)
def sales(orders: Rows) -> Rows:
    return Rows(COLUMNS, tuple(sorted(orders.rows)))


@dataclass
class Side:
    """One ledger, and what is asked of it. `slices`: so many are on record."""

    runtime: RuntimeSetup
    slices: int

    @classmethod
    def of(cls, url: str, root: Path, attempts: int, slices: int) -> Side:
        ledger = Ledger.open(url)
        if attempts:
            grow_old(ledger, "sales", attempts, slices)
        made = make_runtime(ledger, root, ShiftedClock())
        made.target = target = MemoryTarget()
        made.context = replace(
            made.context,
            target_of=lambda *_: target,
            project=assemble("p", [sales]),
            code_hash=lambda _: "c",
        )
        rows = tuple((DAY_ONE + timedelta(hours=slices + hour), hour) for hour in range(2_000))
        made.put(ORDERS, Rows(COLUMNS, rows))
        return cls(made, slices)

    @property
    def ledger(self) -> Ledger:
        return self.runtime.ledger

    def claim(self, turn: int) -> None:
        wanted = ClaimRequest("sales", [f"claim {turn}"], f"claim {turn} {time.time_ns()}", "run", "bench")
        held = self.ledger.claim(wanted, timedelta(minutes=5))
        assert isinstance(held, Claim)
        self.ledger.release(held.attempt)

    def run(self, turn: int) -> None:
        self.runtime.run(sales, label_at(self.slices + turn))

    def run_again(self, turn: int) -> None:
        self.runtime.run(sales, label_at(self.slices + turn))

    def history(self, _: int) -> None:
        self.ledger.attempts("sales", None, 20)
        self.ledger.attempts("sales", label_at(self.slices + 1), 20)

    def overview(self, _: int) -> None:
        self.ledger.overview(None, 50)

    def status(self, _: int) -> None:
        not_right(self.runtime.context.project, self.ledger, sales, self.runtime.context.code_of(sales))

    def effects_list(self, _: int) -> None:
        self.ledger.outbox.listed((), None, 20)
        self.ledger.outbox.listed((EffectState.IN_DOUBT, EffectState.SENT), None, 20)

    def effects_counted(self, _: int) -> None:
        self.ledger.outbox.counts()

    def backfill(self, turn: int) -> None:
        first = self.slices + 100 + 30 * turn
        asked = BackfillRequest("sales", label_at(first), label_at(first + 23))
        context = self.runtime.context
        assert start(context.ledger, asked, lambda: plan_backfill(context, asked))[1] is not None

    def leftovers(self, _: int) -> None:
        self.ledger.undiscarded()
        self.ledger.open_attempts()

    def prune(self, _: int) -> None:
        """With nothing old enough to go."""
        self.ledger.prune(BEFORE_ALL)


ASKED = ("claim", "run", "run_again", "history", "effects_list", "backfill", "leftovers")
BY_SLICES = ("overview", "status", "effects_counted", "prune")
"""What looks at every slice or effect there is: compared with a second."""


def compared(name: str, old: Side, young: Side, rounds: int) -> Iterator[Row]:
    for what in ASKED:
        ask: Ask = getattr(old, what)
        other: Ask = getattr(young, what)
        yield Row(f"{what.replace('_', ' ')}, {name}", *interleaved(ask, other, rounds), GOAL)
    for what in BY_SLICES:
        ask = getattr(old, what)
        took = statistics.median(_seconds(ask, turn) for turn in range(rounds))
        yield Row(f"{what.replace('_', ' ')}, {name}", took, 1.0, 1.0)


def plans(root: Path, rounds: int) -> Iterator[Row]:
    asked = BackfillRequest("sales", label_at(0), label_at(SLICES - 1))
    for what, attempts in (("missing", 0), ("on record", 2 * SLICES)):
        made = Side.of(f"sqlite:///{root}/plan {what}.db", root, attempts, SLICES).runtime.context
        took = [_seconds(plan_backfill, made, asked) for _ in range(rounds)]
        yield Row(f"plan of {SLICES:,} hours, {what}", statistics.median(took), PLAN_SECONDS, 1.0)
        yield Row(f"MB of Python's objects for it, {what}", _megabytes(made, asked), PLAN_MB, 1.0)
        yield Row(f"plan and store it, {what}", _seconds(start, made, asked), PLAN_SECONDS, 1.0)


def _seconds(act: Callable[..., object], *given: object) -> float:
    began = time.perf_counter()
    act(*given)
    return time.perf_counter() - began


def _megabytes(context: RunContext, asked: BackfillRequest) -> float:
    tracemalloc.start()
    try:
        plan_backfill(context, asked)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, help="of the old ledger, a multiple of 200,000")
    options = parser.parse_args()
    server = PostgresServer.start(settings={"shared_buffers": "256MB", "max_wal_size": "4GB"})
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory(prefix="twice-bench-") as folder:
            root = Path(folder)
            rows += plans(root, options.rounds)
            for name, url, other in (
                ("SQLite", f"sqlite:///{root}/old.db", f"sqlite:///{root}/young.db"),
                ("PostgreSQL", server.fresh_database(), server.fresh_database()),
            ):
                old, young = Side.of(url, root, options.attempts, SLICES), Side.of(other, root, *YOUNG)
                rows += compared(name, old, young, options.rounds)
                report(rows, options.json)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
