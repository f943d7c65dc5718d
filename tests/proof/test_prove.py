"""`twice prove` on real Delta: what is sound is proved, what is not is named, the user's tables stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as sf

from twice import Daily, read, replace, task
from twice.core.clock import SYSTEM_CLOCK
from twice.core.project import assemble
from twice.core.proof import Proof, Verdict
from twice.core.task import Task
from twice.engine.code import code_hash
from twice.engine.spark import SparkEngine
from twice.ledgers.store import Ledger
from twice.proof.prove import prove_task
from twice.proof.scratch import Laboratory
from twice.runtime.workshop import Workshop
from twice.wiring.delta import delta_target

pytestmark = pytest.mark.timeout(400)
DAY = "2026-06-09"
SALES = {"sales": read("shop.sales", by="day")}


class Lab:
    """A warehouse with one input, and the tasks that a test declares."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        rows = spark.range(0, 400, 1, 4).selectExpr(
            "id", "DATE'2026-06-09' AS day", "id % 7 AS shop", "CAST(rand(3) AS DOUBLE) * 1e6 AS amount"
        )
        rows.write.format("delta").partitionBy("day").save(self.place("shop.sales"))

    def place(self, table: str) -> str:
        return str(self.folder.joinpath("warehouse", *table.split(".")))

    def prove(self, declared: Task, *scenarios: str) -> Proof:
        ledger = Ledger.open(f"sqlite:///{self.folder}/ledger.db")
        shop = Workshop(
            project=assemble("p", [declared]),
            ledger=ledger,
            engine=SparkEngine(self.spark),
            target_of=lambda table, session: delta_target(session, lambda table: self.place(table.name)),
            code_hash=code_hash,
            clock=SYSTEM_CLOCK,
            holder="test",
            root=self.folder,
        )
        try:
            lab = Laboratory(shop, delta_target, lambda table: self.place(table.name))
            return prove_task(lab, declared, DAY, scenarios)
        finally:
            ledger.close()


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield Lab(spark, tmp_path_factory.mktemp("lab"))


@task("shop.totals", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def totals(sales: Any) -> Any:
    return sales.groupBy("day", "shop").count()


def test_a_sound_task_is_the_same_in_every_scenario(lab: Lab) -> None:
    proof = lab.prove(totals)
    assert [(trial.scenario, trial.verdict, trial.difference) for trial in proof.trials] == [
        (name, Verdict.SAME, None) for name in ("twice", "crash", "double-fire", "parallelism", "row-order")
    ]
    assert proof.holds


@task("shop.stamped", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def stamped(sales: Any) -> Any:
    return sales.select("id", "day", sf.current_timestamp().alias("loaded_at"))


def test_a_clock_in_the_data_is_named_with_its_column_its_rows_and_the_fix(lab: Lab) -> None:
    proof = lab.prove(stamped, "twice")
    (trial,) = proof.trials
    assert trial.verdict is Verdict.CHANGED
    assert trial.difference is not None
    assert (trial.difference.columns, trial.difference.rows) == (("loaded_at",), 400)
    assert [(cause.name, cause.columns) for cause in trial.difference.causes] == [("current_timestamp", ("loaded_at",))]
    for pair in trial.difference.pairs:
        assert pair.clean is not None and pair.other is not None
        assert pair.clean["id"] == pair.other["id"] and pair.clean["loaded_at"] != pair.other["loaded_at"]
    assert len(trial.difference.pairs) == 3
