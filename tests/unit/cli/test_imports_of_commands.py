"""What a small command loads. Its wait is its imports, so there is a budget for them, which no busy machine upsets."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from twice.config import load
from twice.core.ledger.record import ClaimRequest
from twice.wiring.open_project import OpenProject

pytestmark = pytest.mark.process

PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task

@task("shop.revenue", scope=Daily("day", start="2026-01-01"), inputs={"orders": read("shop.orders", by="day")},
      write=replace(), audits=[audit.unique("day")])
def revenue(orders):
    return orders.groupBy("day").agg(F.sum("amount").alias("revenue"))
"""

ENGINES = frozenset({
    *("adbc_driver_postgresql", "alembic", "delta", "jinja2", "numpy", "pandas", "psycopg", "pyarrow", "py4j"),
    *("pydantic_settings", "sqlglot", "sqlalchemy.dialects.postgresql"),
})  # fmt: skip
"""What no small command needs: a database that it does not use, an engine, a reader of settings that are not set."""

OF_THE_LEDGER = ENGINES | {"pyspark", "pipelines", "rich", "yaml", "twice.proof", "twice.queues.handling"}
"""Nor does a question to the ledger, whose answer does not need the declarations."""

OF_DECLARATIONS = {"py4j", "sqlglot"}
"""What importing the pipeline files, and their code hashes, do load."""

OF_A_FILE = ENGINES - {"sqlglot"} | {"pyspark", "sqlalchemy"}
"""Lint reads the SQL in a file."""

PROGRAM = """
import json, runpy, sys
before = set(sys.modules)
sys.argv = ["twice", *sys.argv[1:]]
try: runpy.run_module("twice", run_name="__main__")
except SystemExit as end: assert end.code in (0, 1), end.code
print("MODULES", json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose task was tried once."""
    root = tmp_path_factory.mktemp("shop")
    (root / "pipelines").mkdir()
    (root / "twice.toml").write_text('project = "shop"\n')
    (root / "pipelines" / "revenue.py").write_text(PIPELINE)
    opened = OpenProject(load(root))
    opened.ledger.claim(ClaimRequest("revenue", ["2026-06-09"], "a" * 32, "run", "host:1"), timedelta(minutes=5))
    opened.close()
    return root


def loaded_by(*command: str, root: Path) -> tuple[str, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    out, _, modules = done.stdout.rpartition("MODULES ")
    return out, set(json.loads(modules))


# How many modules each may load: what it loads today and a few more. PySpark alone has 130, alembic 90, rich 60.
BUDGETS = {
    "history revenue": ("claimed", OF_THE_LEDGER, 620),
    "effects list": ("no effects yet", OF_THE_LEDGER, 620),
    "ledger environments": ("./warehouse", OF_THE_LEDGER, 620),
    "status": ("revenue  daily", ENGINES - OF_DECLARATIONS, 760),
    "graph": ("revenue -> shop.revenue", ENGINES - OF_DECLARATIONS, 760),
    "lint pipelines/revenue.py": ("", OF_A_FILE, 640),
}


@pytest.mark.parametrize("command", BUDGETS)
def test_a_small_command_loads_no_more_than_it_needs(root: Path, command: str) -> None:
    shown, unneeded, most = BUDGETS[command]
    out, loaded = loaded_by(*command.split(), root=root)
    assert shown in out
    assert {name for name in unneeded if any(each == name or each.startswith(f"{name}.") for each in loaded)} == set()
    assert len(loaded) < most
