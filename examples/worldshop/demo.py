"""The shop's revenue: one naive job and one declared with twice, both killed in the middle, both run again.

`make demo` runs it. Every command is really run, every kill is a SIGKILL to Python and its JVM, every number is read
from the tables. It stops with exit code 1 if one of its claims does not hold. Tables stay in ./demo-shop; the next demo
starts with a clean one. `--numbers FILE` also writes what it read from the tables, for the picture of the README.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from twice import TwiceError

import generate
import local_spark

HERE = Path(__file__).resolve().parent
FOLDER = Path.cwd() / "demo-shop"
MARK = ".made-by-make-demo"
DAY = "2026-06-09"
ORDERS_PER_DAY = 20_000
BROKEN_REGION = "jp"
KILL_AFTER = 3
KILLED = -signal.SIGKILL

Revenue = dict[str, Decimal]


class ClaimFailed(Exception):
    """A claim of the demo did not hold."""


class DemoOutput(Protocol):
    """Where a demo prints and runs its commands; demo_postgres.py has its own."""

    @property
    def console(self) -> Console: ...

    @property
    def folder(self) -> Path: ...


@dataclass(frozen=True)
class Demo:
    """What every step needs: where to print, the tables, and what the revenue really is."""

    console: Console
    spark: SparkSession
    warehouse: Path
    truth: Revenue
    folder: Path = FOLDER

    def revenue(self, table: str) -> Revenue:
        """What a reader of the table sees now, by region."""
        place = self.warehouse / table
        if not (place / "_delta_log").exists():
            return {}
        rows = self.spark.read.format("delta").load(str(place)).where(f"order_date = DATE '{DAY}'")
        found: Revenue = {}
        for row in rows.collect():
            found[row.region] = found.get(row.region, Decimal(0)) + row.revenue
        return found

    def version(self, table: str) -> int:
        log = self.warehouse / table / "_delta_log"
        return max(int(file.stem) for file in log.glob("*.json"))


def main() -> int:
    parser = argparse.ArgumentParser(description="The shop's revenue, killed and run again.")
    parser.add_argument("--numbers", type=Path, help="write what was read from the tables to this file")
    asked = parser.parse_args()
    console = Console(highlight=False)
    started = time.monotonic()
    try:
        demo = prepare(console)
        for step in (naive_is_killed, twice_is_killed, run_again, restate, audit_fails):
            step(demo)
        if asked.numbers:
            asked.numbers.write_text(_numbers(demo), encoding="utf-8")
        what_to_try_next(demo, time.monotonic() - started)
    except ClaimFailed as failed:
        console.print(f"[bold red]A claim did not hold:[/] {failed}")
        return 1
    except TwiceError as error:
        console.print(Text(f"{error}", style="bold red"))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def prepare(console: Console) -> Demo:
    console.print(Rule("[bold]worldshop[/]: one day's revenue, two ways to write it"))
    _clean_folder()
    explain(console, f"A shop sells in five regions. Its orders go to {_near(FOLDER)}/warehouse/shop/orders …")
    warehouse = FOLDER / "warehouse"
    spark = local_spark.start(warehouse)
    _deliver(spark, warehouse, days=3)
    truth = _truth(spark, warehouse)
    explain(console, f"Revenue of {DAY}, added up order by order in plain Python: [bold]{_dollars(truth)}[/]")
    return Demo(console, spark, warehouse, truth)


def naive_is_killed(demo: Demo) -> None:
    heading(demo, 1, "A loop of appends, killed part-way and retried")
    command = [sys.executable, "-m", "naive.revenue_daily", "--date", DAY]
    shown = f"python -m naive.revenue_daily --date {DAY}"
    must(run(demo, command, shown, kill_after=_appended(KILL_AFTER)) == KILLED, "the naive job was not killed")
    must(run(demo, command, shown) == 0, "the naive job's retry failed")
    seen = demo.revenue("naive/revenue_daily")
    _compare(demo, seen)
    wrong = (_sum(seen) / _sum(demo.truth) - 1) * 100
    side = "high" if wrong > 0 else "low"
    must(wrong != 0, "the naive job got it right")
    conclude(demo, "red", f"Exit 0, no error, and revenue is {abs(wrong):.1f} % too {side}: {_dollars(seen)}.")


def twice_is_killed(demo: Demo) -> None:
    heading(demo, 2, "The same job with twice, killed just before its commit and retried")
    killed = {"TWICE_FAILPOINT": "before_commit"}
    must(twice(demo, f"run revenue_daily --date {DAY}", environment=killed) == KILLED, "the job was not killed")
    written = len(list((demo.warehouse / "shop" / "revenue_daily").rglob("*.parquet")))
    must(written > 0, "it was killed before it had written anything")
    must(demo.revenue("shop/revenue_daily") == {}, "a reader sees rows of a run that was killed")
    explain(demo.console, f"Killed with {written} data file(s) written. A reader of the table sees no row of them.")
    must(twice(demo, f"run revenue_daily --date {DAY}") == 0, "the retry failed")
    seen = demo.revenue("shop/revenue_daily")
    _compare(demo, seen)
    must(seen == demo.truth, f"revenue is {_dollars(seen)}, not {_dollars(demo.truth)}")
    conclude(demo, "green", f"Exact to the cent: {_dollars(seen)}.")


def run_again(demo: Demo) -> None:
    heading(demo, 3, "Run again: nothing has changed")
    before = demo.version("shop/revenue_daily")
    must(twice(demo, f"run revenue_daily --date {DAY}", expect="already published") == 0, "the second run failed")
    must(demo.version("shop/revenue_daily") == before, "the second run made a commit")
    conclude(demo, "green", "Already published: exit 0, no commit, no job over the data.")


def restate(demo: Demo) -> None:
    heading(demo, 4, "Restate: compute it again on purpose, and compare")
    must(twice(demo, f"restate revenue_daily --date {DAY}", expect="identical") == 0, "the restatement failed")
    must(demo.revenue("shop/revenue_daily") == demo.truth, "the restatement changed the revenue")
    conclude(demo, "green", "A new generation, and row for row the same: IDENTICAL.")


def audit_fails(demo: Demo) -> None:
    heading(demo, 5, "Bad data arrives, and an audit stops it")
    explain(demo.console, f"{DAY} is delivered again; the currency service was down: no dollars for {BROKEN_REGION}.")
    before = (demo.version("shop/revenue_daily"), demo.revenue("shop/revenue_daily"))
    _deliver(demo.spark, demo.warehouse, days=1, broken=BROKEN_REGION)
    must(twice(demo, f"run revenue_daily --date {DAY}", expect="not_null(revenue)") == 1, "bad data was published")
    after = (demo.version("shop/revenue_daily"), demo.revenue("shop/revenue_daily"))
    must(after == before, f"the table changed from {before} to {after}")
    conclude(demo, "green", f"Exit 1. Readers still see version {after[0]} and {_dollars(after[1])}: untouched.")
    _deliver(demo.spark, demo.warehouse, days=1)


def what_to_try_next(demo: Demo, seconds: float) -> None:
    demo.console.print(Rule(f"done in {seconds:.0f} s"))
    explain(demo.console, f"The tables, the ledger and the job are in [bold]{_near(FOLDER)}[/]. Try next:")
    program = Path(sys.executable).parent / "twice"
    shown = os.path.relpath(program, FOLDER) if program.is_relative_to(Path.cwd()) else program
    for why, command in (
        ("", f"cd {_near(FOLDER)}"),
        ("every attempt, and what became of it", f"{shown} history revenue_daily --date {DAY}"),
        ("the day was delivered again, repaired", f"{shown} run revenue_daily --date {DAY}"),
        ("another day: stop it where you like, and run it again", f"{shown} run revenue_daily --date 2026-06-10"),
        ("the shop's other jobs, and what they read", f"{shown} graph"),
    ):
        demo.console.print(Text(f"    # {why}", style="dim") if why else Text(), soft_wrap=True)
        demo.console.print(Text("    " + command, style="bold"), soft_wrap=True)
    demo.console.print()


def twice(demo: DemoOutput, words: str, expect: str = "", environment: dict[str, str] | None = None) -> int:
    command = [str(Path(sys.executable).parent / "twice"), *words.split()]
    shown = " ".join([*(f"{name}={value}" for name, value in (environment or {}).items()), "twice", words])
    return run(demo, command, shown, expect=expect, environment=environment)


def run(
    demo: DemoOutput,
    command: list[str],
    shown: str,
    expect: str = "",
    environment: dict[str, str] | None = None,
    kill_after: Callable[[str], bool] | None = None,
) -> int:
    """Run a command in the shop's folder, show its output as it comes, and return its exit code.

    It gets a process group of its own, so that a kill takes its JVM too and never this process.
    """
    demo.console.print(Text("$ " + shown, style="bold cyan"), soft_wrap=True)
    process = subprocess.Popen(
        command,
        cwd=demo.folder,
        env={**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    output = ""
    try:
        for line in process.stdout or ():
            output += line
            demo.console.print(Padding(Text(line.rstrip(), style="dim"), (0, 0, 0, 4), expand=False))
            if kill_after is not None and kill_after(line):
                os.killpg(process.pid, signal.SIGKILL)
    except BaseException:  # Ctrl-C reaches this process only: the job must not live on
        os.killpg(process.pid, signal.SIGKILL)
        raise
    code = process.wait()
    if code == KILLED:
        demo.console.print(Text("    killed: SIGKILL to the whole process group", style="bold red"))
    must(expect.lower() in output.lower(), f"`{shown}` did not print {expect!r}")
    return code


def heading(demo: DemoOutput, number: int, title: str) -> None:
    demo.console.print()
    demo.console.print(Rule(f"[bold]{number}[/]  {title}", align="left"))


def explain(console: Console, text: str) -> None:
    console.print(text)


def conclude(demo: DemoOutput, colour: str, text: str) -> None:
    demo.console.print(f"[bold {colour}]=> {text}[/]")


def must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ClaimFailed(otherwise)


def _appended(regions: int) -> Callable[[str], bool]:
    """True once that many regions were appended."""
    seen: list[str] = []

    def enough(line: str) -> bool:
        seen.extend([line] if line.rstrip().endswith("appended") else [])
        return len(seen) >= regions

    return enough


def _clean_folder() -> None:
    """Start with an empty shop; a folder of that name that is not the demo's is left alone."""
    if FOLDER.exists() and any(FOLDER.iterdir()) and not (FOLDER / MARK).exists():
        raise ClaimFailed(f"{FOLDER} is there and is not the demo's. Move it away and start again.")
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(HERE, FOLDER, ignore=shutil.ignore_patterns("__pycache__", "warehouse", ".twice", "demo.py"))
    (FOLDER / MARK).touch()


def _deliver(spark: SparkSession, warehouse: Path, days: int, broken: str | None = None) -> None:
    """The source system delivers orders. Delivering a day again replaces it."""
    size = generate.Size(days, ORDERS_PER_DAY, date.fromisoformat(DAY), broken_region=broken)
    generate.write(spark, warehouse, size, only=["orders"])


def _truth(spark: SparkSession, warehouse: Path) -> Revenue:
    """Independent of every job: each order's amount, added up in Python."""
    orders = spark.read.format("delta").load(str(warehouse / "shop" / "orders")).where(f"order_date = DATE '{DAY}'")
    truth: Revenue = {}
    for row in orders.select("region", "amount_usd").collect():
        truth[row.region] = truth.get(row.region, Decimal(0)) + row.amount_usd
    return truth


def _compare(demo: Demo, seen: Revenue) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("    region", "orders", "table", ""):
        table.add_column(title, justify="left" if title.endswith("region") else "right")
    for region, exact in sorted(demo.truth.items()):
        times = seen.get(region, Decimal(0)) / exact
        remark = "" if times == 1 else f"[red]x {times.normalize():f}[/]"
        table.add_row(f"    {region}", f"{exact:,.2f}", f"{seen.get(region, Decimal(0)):,.2f}", remark)
    demo.console.print(table)


def _numbers(demo: Demo) -> str:
    read = {
        "orders": demo.truth,
        "naive": demo.revenue("naive/revenue_daily"),
        "twice": demo.revenue("shop/revenue_daily"),
    }
    regions = {name: {region: str(amount) for region, amount in sorted(found.items())} for name, found in read.items()}
    return json.dumps({"day": DAY, "killed_after": KILL_AFTER, **regions}, indent=2) + "\n"


def _sum(revenue: Revenue) -> Decimal:
    return sum(revenue.values(), Decimal(0))


def _dollars(revenue: Revenue) -> str:
    return f"${_sum(revenue):,.2f}"


def _near(path: Path) -> str:
    """As a person in this folder would type it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
