"""`twice prove` on real Delta: what is sound is proved, what is not is named, the user's tables stay."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as sf

from twice import Daily, Policy, append_once, read, replace, task, webhook
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import assemble
from twice.core.results.proof import Proof, TrialResult
from twice.core.task import Task
from twice.engine.code.code_hash import code_hash
from twice.engine.spark import SparkEngine
from twice.errors import UsageError
from twice.ledgers.ledger import Ledger
from twice.proof.tasks.prove import prove_task
from twice.proof.tasks.scratch import ProofSetup
from twice.runtime.context import RunContext
from twice.senders.address import Allowed
from twice.senders.http import Http
from twice.senders.webhook import WebhookSender
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

    def files(self) -> dict[str, int]:
        """Every file of the user's warehouse and ledger, with its size and the moment it was written."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path): path.stat().st_mtime_ns for path in found if path.name != "ledger.db-shm"}

    def prove(self, declared: Task, *scenarios: str, copied: bool = True) -> Proof:
        ledger = Ledger.open(f"sqlite:///{self.folder}/ledger.db")
        context = RunContext(
            project=assemble("p", [declared]),
            ledger=ledger,
            engine=SparkEngine(self.spark),
            target_of=lambda table, session: delta_target(session, lambda table: self.place(table.name)),
            code_hash=code_hash,
            clock=SYSTEM_CLOCK,
            holder="test",
            root=self.folder,
            senders={"webhook": WebhookSender(Http(Allowed(())))},
        )
        try:
            setup = ProofSetup(context, delta_target, lambda table: self.place(table.name) if copied else None)
            return prove_task(setup, declared, DAY, scenarios)
        finally:
            ledger.close()


@pytest.fixture(scope="module")
def setup(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield Lab(spark, tmp_path_factory.mktemp("lab"))


@task(
    "shop.totals",
    scope=Daily("day", start="2026-01-01"),
    inputs=SALES,
    write=replace(),
    effects=[webhook("https://example.com/a", body=lambda result: {"rows": result.rows}, name="announce")],
)
def totals(sales: Any) -> Any:
    return sales.groupBy("day", "shop").count()


def test_a_sound_task_is_the_same_in_every_scenario_and_nothing_of_the_users_is_written(setup: Lab) -> None:
    """The task has published before: its table is there, and the copies refer to its files. An effect
    that is sent more often than by one clean run is a difference."""
    session = SparkEngine(setup.spark).fresh()
    earlier = session.createDataFrame([(date(2026, 6, 8), 1, 5)], "day date, shop bigint, count bigint")
    earlier.write.format("delta").partitionBy("day").save(setup.place("shop.totals"))
    Ledger.open(f"sqlite:///{setup.folder}/ledger.db").close()
    before = setup.files()
    proof = setup.prove(totals)
    assert [(trial.scenario, trial.result, trial.difference) for trial in proof.trials] == [
        (name, TrialResult.SAME, None) for name in ("twice", "crash", "double-fire", "parallelism", "row-order")
    ]
    assert proof.holds
    assert "19 steps" in proof.trials[1].reason
    assert setup.files() == before


@task("shop.stamped", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def stamped(sales: Any) -> Any:
    return sales.select("id", "day", sf.current_timestamp().alias("loaded_at"))


def test_a_clock_in_the_data_is_named_with_its_column_its_rows_and_the_fix(setup: Lab) -> None:
    proof = setup.prove(stamped, "twice")
    (trial,) = proof.trials
    assert trial.result is TrialResult.CHANGED
    assert trial.difference is not None
    assert (trial.difference.columns, trial.difference.rows) == (("loaded_at",), 400)
    assert [(cause.name, cause.columns) for cause in trial.difference.causes] == [("current_timestamp", ("loaded_at",))]
    for pair in trial.difference.pairs:
        assert pair.clean is not None and pair.other is not None
        assert pair.clean["id"] == pair.other["id"] and pair.clean["loaded_at"] != pair.other["loaded_at"]
    assert len(trial.difference.pairs) == 3


@task("shop.ranked", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def ranked(sales: Any) -> Any:
    """Sums of doubles in the order they come, and numbers among equals."""
    numbered = sf.row_number().over(Window.partitionBy("day").orderBy("shop"))
    return sales.withColumn("place", numbered).withColumn("total", sf.sum("amount").over(Window.partitionBy("shop")))


def test_what_only_another_order_of_rows_shows_is_named_by_its_column(setup: Lab) -> None:
    proof = setup.prove(ranked, "row-order")
    difference = proof.trials[0].difference
    assert difference is not None
    assert set(difference.columns) == {"place", "total"}
    assert [(cause.name, cause.columns) for cause in difference.causes] == [
        ("sum of doubles", ("total",)),
        ("ties", ("place",)),
    ]


@task(
    "shop.allowed",
    scope=Daily("day", start="2026-01-01"),
    inputs=SALES,
    write=replace(),
    policy=Policy(allow=("current_timestamp",)),
)
def allowed(sales: Any) -> Any:
    return sales.select("id", "day", sf.current_timestamp().alias("loaded_at"))


def test_a_column_that_the_policy_lets_differ_is_not_compared_and_reported_so(setup: Lab) -> None:
    proof = setup.prove(allowed, "twice")
    assert proof.holds
    assert proof.notes == ("not compared, since the policy allows it to differ: loaded_at",)


def test_an_unknown_scenario_is_refused_with_those_there_are(setup: Lab) -> None:
    with pytest.raises(UsageError, match="there is no scenario 'thrise'. Known: twice, crash"):
        setup.prove(totals, "thrise")


@task("shop.batched", scope=Daily("day", start="2026-01-01", batch=True), inputs=SALES, write=replace())
def batched(sales: Any) -> Any:
    return sales.groupBy("day", "shop").count()


@pytest.mark.long
def test_what_is_played_on_request_proves_a_sound_task(setup: Lab) -> None:
    asked = ("thrice", "partial", "batch", "out-of-order", "late-rows", "later")
    proof = setup.prove(batched, *asked)
    assert [(trial.scenario, trial.result) for trial in proof.trials] == [(name, TrialResult.SAME) for name in asked]
    assert proof.trials[1].reason.startswith("died after half of the rows (")


@task("shop.recent", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def recent(sales: Any) -> Any:
    return sales.where(sf.col("id") % 31 < date.today().day).groupBy("day").count()


@pytest.mark.long
def test_a_python_clock_that_decides_on_rows_shows_when_it_is_moved(setup: Lab) -> None:
    proof = setup.prove(recent, "twice", "later")
    assert [trial.result for trial in proof.trials] == [TrialResult.SAME, TrialResult.CHANGED]


@task("shop.appended", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=append_once())
def appended(sales: Any) -> Any:
    return sales


@pytest.mark.long
def test_what_says_nothing_of_a_task_is_not_applicable_with_the_reason(
    setup: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    proof = setup.prove(appended, "thrice", "batch", "shifted")
    assert [(trial.result, trial.reason) for trial in proof.trials] == [
        (TrialResult.NOT_APPLICABLE, "append_once() is never computed again: what is published stays"),
        (TrialResult.NOT_APPLICABLE, "the scope does not say batch=True: its slices are always computed one by one"),
        (TrialResult.NOT_APPLICABLE, "faketime missing"),
    ]
    assert not proof.holds


def test_a_target_that_cannot_be_copied_is_not_applicable_and_says_so(setup: Lab) -> None:
    proof = setup.prove(totals, "twice", copied=False)
    assert [(trial.result, trial.reason) for trial in proof.trials] == [
        (TrialResult.NOT_APPLICABLE, "shop.totals is not a Delta table, and no other is copied for a proof yet")
    ]


@task("shop.firsts", scope=Daily("day", start="2026-01-01"), write=replace())
def firsts(run: Any) -> Any:
    return run.spark.read.csv(str(run.root / "lines.csv"), schema="day date, shop int, v int").dropDuplicates(["shop"])


@task("shop.first_by_sql", scope=Daily("day", start="2026-01-01"), write=replace())
def first_by_sql(run: Any) -> Any:
    lines = run.spark.sql(f"SELECT * FROM text.`{run.root / 'lines.csv'}`")
    return lines.selectExpr("DATE'2026-06-09' AS day", "value").dropDuplicates(["day"])


@task("shop.beside", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def beside(run: Any, sales: Any) -> Any:
    lines = run.spark.sql(f"SELECT count(*) AS lines FROM text.`{run.root / 'lines.csv'}`")
    return sales.groupBy("day").count().crossJoin(lines)


@task("shop.made_up", scope=Daily("day", start="2026-01-01"), write=replace())
def made_up(run: Any) -> Any:
    return run.spark.range(3).selectExpr("id", "DATE'2026-06-09' AS day")


@pytest.fixture
def lines(setup: Lab) -> Path:
    path = setup.folder / "lines.csv"
    path.write_text("".join(f"2026-06-09,{number % 3},{number}\n" for number in range(60)))
    return path


@pytest.mark.long
@pytest.mark.usefixtures("lines")
def test_rows_that_a_task_reads_by_itself_are_reordered_too(setup: Lab) -> None:
    (trial,) = setup.prove(firsts, "row-order").trials
    assert trial.result is TrialResult.CHANGED
    assert trial.difference is not None
    assert trial.difference.columns == ("v",)


@pytest.mark.long
def test_without_rows_to_reorder_an_order_of_rows_shows_nothing(setup: Lab) -> None:
    proof = setup.prove(made_up, "parallelism", "row-order", "partial", "late-rows")
    why = (
        "the task reads nothing whose rows a proof could disturb: declare an input, or read through spark.read or "
        "spark.table"
    )
    assert [(trial.result, trial.reason) for trial in proof.trials] == [
        (TrialResult.SAME, "1 partition and 8, adaptive execution off and on; its inputs as they are"),
        *[(TrialResult.NOT_APPLICABLE, why)] * 3,
    ]
    assert not setup.prove(made_up, "row-order").holds


@pytest.mark.long
def test_what_is_read_around_the_readers_is_named_as_not_disturbed(setup: Lab, lines: Path) -> None:
    (trial,) = setup.prove(first_by_sql, "row-order").trials
    assert trial.result is TrialResult.NOT_APPLICABLE
    assert f"reads file:{lines}, whose rows a proof cannot disturb: declare an input" in trial.reason
    (trial,) = setup.prove(beside, "row-order").trials
    assert trial.result is TrialResult.SAME
    assert trial.reason.endswith(f"; not disturbed: file:{lines}, read in another way than spark.read")


@task("shop.distinct", scope=Daily("day", start="2026-01-01"), inputs=SALES, write=replace())
def distinct(sales: Any) -> Any:
    """The guard refuses it, though every row of a shop is the same here."""
    return sales.select("day", (sf.col("id") * 0).alias("v"), "shop").dropDuplicates(["day", "shop"])


@pytest.mark.long
def test_what_twice_run_refuses_is_not_proved_though_nothing_differs(setup: Lab) -> None:
    proof = setup.prove(distinct, "twice", "row-order")
    assert [trial.result for trial in proof.trials] == [TrialResult.SAME, TrialResult.SAME]
    (refused,) = proof.refused
    assert refused.startswith("drop_duplicates reaches v: of rows with the same key it keeps any one.")
    assert not proof.holds
    assert "NOT proved, since twice run refuses its plan" in str(proof)
