"""Small projects on disk, and the command line called in this process or in one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_queries import SPARK_TOML
from typer.testing import CliRunner

from twice.cli.main import app

TOML = f"""
project = "worldshop"
{SPARK_TOML}"""

REVENUE = """
from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task

@task("shop.revenue_daily", scope=Daily("order_date", start="2026-01-01"),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace(),
      audits=[audit.unique("order_date", "region"), audit.not_null("revenue"), audit.rows(at_least=1)])
def revenue_daily(orders):
    return orders.groupBy("order_date", "region").agg(F.sum("amount").alias("revenue"))
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Shop:
    """A project's folder and the ways to call `twice` in it."""

    root: Path
    inside: bool = False
    """Processes are started in the folder, as people do."""

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def call(self, *args: str) -> Answer:
        """In this process: quick, and on the session that is already running."""
        result = CliRunner().invoke(app, [*args, "--project", str(self.root)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """In a process (and JVM) of its own, in a process group of its own so that it may be killed whole."""
        return subprocess.Popen(
            [sys.executable, "-m", "twice", *args, "--project", str(self.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=self.root if self.inside else None,
            env={**os.environ, **(env or {})},
        )

    @contextmanager
    def running(self, *args: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """Started in the block, and ended with it if the block fails: a test that goes red waits for nobody."""
        with self.start(*args, env=env) as process:
            try:
                yield process
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise

    def spawn(self, *args: str, env: Mapping[str, str] | None = None, timeout: float = 100) -> Answer:
        with self.running(*args, env=env) as process:
            out, err = process.communicate(timeout=timeout)
            return Answer(process.returncode, out, err)

    @property
    def named(self) -> str:
        """How a command that is printed names this project: the tests are not in its folder."""
        return f"--project {self.root}"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A project with the revenue job and no tables."""
    made = Shop(tmp_path / "shop")
    made.write("twice.toml", TOML)
    made.write("pipelines/revenue.py", REVENUE)
    return made


def write_orders(spark: Any, warehouse: Path, *rows: tuple[int, str, str, str]) -> None:
    """The whole table of orders, as another system would write it."""
    frame = spark.createDataFrame(list(rows), "order_id BIGINT, order_date STRING, region STRING, amount STRING")
    typed = frame.selectExpr(
        "order_id", "CAST(order_date AS DATE)", "region", "CAST(amount AS DECIMAL(12,2)) AS amount"
    )
    (
        typed.coalesce(1)
        .write.format("delta")
        .mode("overwrite")
        .partitionBy("order_date")
        .save(str(warehouse / "shop" / "orders"))
    )


@pytest.fixture
def put_orders(spark: Any) -> Callable[..., None]:
    return lambda shop, *rows: write_orders(spark, shop.warehouse, *rows)


@pytest.fixture
def stocked(shop: Shop, put_orders: Callable[..., None]) -> Shop:
    """The project with two days of orders."""
    put_orders(
        shop,
        (1, "2026-06-09", "EU", "10.00"),
        (2, "2026-06-09", "EU", "2.50"),
        (3, "2026-06-09", "US", "1.00"),
        (4, "2026-06-10", "EU", "7.00"),
    )
    return shop
