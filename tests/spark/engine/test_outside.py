"""What a plan holds that came from no table: which changes of it are noticed, and what makes no difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql.classic.column import Column

from twice.core.lineage import inputs_hash
from twice.core.ports import FUNCTION, PLAN, Leaf
from twice.core.scope import Daily, days
from twice.engine.frames import frames
from twice.engine.lineage.leaves import leaves
from twice.engine.lineage.non_table_inputs import outside
from twice.engine.lineage.scans import FILES

pytestmark = pytest.mark.timeout(180)
SCOPE = Daily("order_date", start="2026-01-01")
Job = Callable[[Any, Any], Any]
RATES = {"usd": 2}


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("outside") / "orders")
    rows = spark.range(40).selectExpr(
        "id", "date_add(DATE'2026-02-20', CAST(id % 14 AS INT)) AS order_date", "id % 3 AS region", "id * 2 AS amount"
    )
    rows.write.format("delta").partitionBy("order_date").save(path)
    return path


def leaves_read(
    session: Any, table: str, job: Job, first: str = "2026-02-26", last: str = "2026-02-26"
) -> tuple[Leaf, ...]:
    """What a run of these slices holds, cut as the runtime cuts."""
    slices = list(SCOPE.through(SCOPE.slice_of(first), SCOPE.slice_of(last)))
    orders = session.read.format("delta").load(table)
    cut = frames.cut(orders, "order_date", SCOPE.widened(slices[0], days(2)), slices[-1].end, None)
    return outside(job(cut, session), [cut], job)


def plain(orders: Any, session: Any) -> Any:
    return orders.groupBy("order_date").agg(sf.sum("amount").alias("amount"))


def windowed(orders: Any, session: Any) -> Any:
    newest = Window.partitionBy("region").orderBy(sf.desc("amount"), "id")
    return orders.withColumn("rank", sf.row_number().over(newest)).where("rank <= 3").drop("rank")


def unioned(orders: Any, session: Any) -> Any:
    small, large = orders.where("amount < 20"), orders.where(sf.col("amount") >= 20)
    return small.unionByName(large).union(orders.where("false")).distinct()


def viewed(orders: Any, session: Any) -> Any:
    orders.createOrReplaceTempView("today")
    return session.sql(
        "WITH r AS (SELECT region, max(amount) AS most FROM today GROUP BY region), s AS (SELECT * FROM r)"
        "SELECT today.*, s.most FROM today JOIN s USING (region) WHERE amount > (SELECT avg(amount) FROM today)"
    )


def with_itself(orders: Any, session: Any) -> Any:
    return orders.join(orders.groupBy("region").agg(sf.max("id").alias("last")), "region").withColumn(
        "wide", sf.concat_ws("-", *[sf.col("id")] * 30)
    )


def local(orders: Any, session: Any) -> Any:
    names = session.sql("SELECT * FROM VALUES (0, 'eu'), (1, 'us') AS names(region, name)")
    return orders.join(sf.broadcast(names), "region").withColumn("note", sf.lit(b"\x00\x01"))


def called(orders: Any, session: Any) -> Any:
    return orders.withColumn("usd", sf.udf(lambda amount: amount * RATES["usd"], "long")("amount"))


def observed(orders: Any, session: Any) -> Any:
    from pyspark.sql import Observation

    return orders.observe(Observation(), sf.count(sf.lit(1)).alias("rows"))


JOBS: list[Job] = [plain, windowed, unioned, viewed, with_itself, local, called, observed]


@pytest.mark.parametrize("job", JOBS)
def test_the_same_code_gives_the_same_plan_again_for_another_day_and_in_a_batch(
    session: Any, spark: Any, table: str, job: Job
) -> None:
    from twice.engine.session.session import run_session

    found = leaves_read(session, table, job)
    assert inputs_hash(found) is not None, found
    assert leaves_read(run_session(spark), table, job) == found
    assert leaves_read(session, table, job, "2026-03-01", "2026-03-01") == found
    assert leaves_read(session, table, job, "2026-02-22", "2026-03-04") == found


def test_a_constant_a_column_and_an_order_from_elsewhere_count(session: Any, table: str) -> None:
    """A setting, a file read at import, an environment variable: all come as one of these."""

    def job(setting: dict[str, Any]) -> Job:
        order = sf.desc if setting.get("newest") else sf.asc
        return lambda orders, _: (
            orders.where(sf.col("region").cast("string").isin(*setting["regions"]))
            .withColumn("vat", sf.lit(setting.get("vat", 1)))
            .withColumn("kept", sf.col(setting.get("column", "amount")))
            .withColumn("rank", sf.row_number().over(Window.orderBy(order("id"))))
        )

    settings: list[dict[str, Any]] = [
        {"regions": ["0"]},
        {"regions": ["0", "1"]},
        {"regions": ["0, 1"]},
        {"regions": ["0"], "vat": 2},
        {"regions": ["0"], "vat": "1"},
        {"regions": ["0"], "column": "id"},
        {"regions": ["0"], "newest": True},
    ]
    found = [leaves_read(session, table, job(setting)) for setting in settings]
    assert len({inputs_hash(each) for each in found}) == len(settings)


def test_a_bound_of_the_day_that_the_code_wrote_itself_counts(session: Any, table: str) -> None:
    """Only the cut that twice makes belongs to the slice: the same filter of the code is the code's."""

    def since(day: str) -> Job:
        return lambda orders, _: orders.where(f"order_date >= DATE'{day}'")

    single = leaves_read(session, table, since("2026-02-26"))
    assert leaves_read(session, table, since("2026-02-24")) != single
    batch = leaves_read(session, table, since("2026-02-20"), "2026-02-22", "2026-02-28")
    assert batch != single


def test_which_of_two_tables_stands_where_counts(session: Any, table: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    session.read.format("delta").load(table).write.format("delta").save(other)

    def less(one: str, two: str) -> Job:
        load = session.read.format("delta").load
        return lambda _, __: load(one).select("id").exceptAll(load(two).select("id"))

    assert leaves_read(session, table, less(table, other)) != leaves_read(session, table, less(other, table))


READERS: dict[str, tuple[Callable[[Any, str], Any], Callable[[Any, str], Any]]] = {
    "the separator": (
        lambda read, path: read.schema("a string, b string").csv(path),
        lambda read, path: read.schema("a string, b string").option("sep", ";").csv(path),
    ),
    "what counts as null": (
        lambda read, path: read.schema("a string, b string").csv(path),
        lambda read, path: read.schema("a string, b string").option("nullValue", "x").csv(path),
    ),
    "the schema": (
        lambda read, path: read.schema("a string, b string").csv(path),
        lambda read, path: read.schema("b string, a string").csv(path),
    ),
    "the format": (
        lambda read, path: read.schema("a string, b string").csv(path),
        lambda read, path: read.schema("a string, b string").json(path),
    ),
    "one file, one row": (
        lambda read, path: read.text(path),
        lambda read, path: read.text(path, wholetext=True),
    ),
}


@pytest.mark.parametrize(("one", "other"), READERS.values(), ids=READERS.keys())
def test_how_files_are_read_counts_in_the_plan_and_in_what_the_frame_reads(
    session: Any, table: str, tmp_path: Path, one: Any, other: Any
) -> None:
    (tmp_path / "rates.csv").write_text("x;y,z\n")

    def job(reads: Any) -> Job:
        return lambda orders, _: orders.crossJoin(reads(session.read, str(tmp_path)))

    def files(reads: Any) -> list[Leaf]:
        return [leaf for leaf in leaves(reads(session.read, str(tmp_path))) if leaf.kind == FILES]

    found = leaves_read(session, table, job(one))
    assert leaves_read(session, table, job(one)) == found != leaves_read(session, table, job(other))
    assert files(one) == files(one) != files(other)
    assert files(one)[0].identity is not None


def test_a_secret_in_the_options_of_a_reader_is_nowhere_to_be_read_and_a_new_one_reads_the_same_files(
    session: Any, table: str, tmp_path: Path
) -> None:
    (tmp_path / "rates.csv").write_text("x;y,z\n")

    def job(secret: str) -> Job:
        read = session.read.schema("a string").option("fs.s3a.secret.key", secret).option("password", "hunter2")
        return lambda orders, _: orders.crossJoin(read.csv(str(tmp_path)))

    def everything(secret: str) -> tuple[Leaf, ...]:
        frame = job(secret)(session.read.format("delta").load(table), session)
        return (*leaves_read(session, table, job(secret)), *leaves(frame))

    found = everything("opensesame")
    assert "opensesame" not in str(found)
    assert "hunter2" not in str(found)
    assert everything("another") == found


def test_two_functions_of_one_name_that_change_places_count(session: Any, table: str) -> None:
    def times(factor: int) -> Any:
        return sf.udf(lambda x: x * factor, "long")

    def job(one: int, two: int) -> Job:
        return lambda orders, _: orders.select(times(one)("id"), times(two)("amount"))

    assert leaves_read(session, table, job(2, 3)) == leaves_read(session, table, job(2, 3))
    assert leaves_read(session, table, job(2, 3)) != leaves_read(session, table, job(3, 2))


def test_what_a_function_in_the_plan_computes_with_counts(
    session: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = leaves_read(session, table, called)
    monkeypatch.setitem(RATES, "usd", 3)
    assert inputs_hash(leaves_read(session, table, called)) != inputs_hash(before)


def test_a_function_with_more_than_is_sent_along_is_named_and_never_the_same(session: Any, table: str) -> None:
    held = "x" * 3_000_000
    found = leaves_read(session, table, lambda orders, _: orders.select(sf.udf(lambda x: len(held) + x, "long")("id")))
    (unsure,) = [leaf for leaf in found if leaf.identity is None]
    assert (unsure.kind, unsure.name) == (
        FUNCTION,
        "<lambda> holds a broadcast, or more than is sent along with it, which cannot be compared",
    )
    assert inputs_hash(found) is None


def fails_here() -> None:
    raise ValueError("only a worker has it")


class OnlyThere:
    def __reduce__(self) -> Any:
        return fails_here, ()


def test_a_function_that_cannot_be_made_again_here_says_why_and_blames_no_broadcast(session: Any, table: str) -> None:
    held = OnlyThere()
    found = leaves_read(session, table, lambda orders, _: orders.select(sf.udf(lambda x: (held, x)[1], "long")("id")))
    (unsure,) = [leaf for leaf in found if leaf.identity is None]
    assert (
        unsure.name == "<lambda> cannot be made again here (ValueError: only a worker has it), so it cannot be compared"
    )


def test_a_function_of_the_jvm_is_never_the_same(session: Any, table: str) -> None:
    def job(orders: Any, _: Any) -> Any:
        made = session._jvm.org.apache.spark.ml.functions.array_to_vector(sf.array(sf.lit(1.0))._jc)
        return orders.withColumn("v", Column(made))

    assert inputs_hash(leaves_read(session, table, job)) is None


def test_a_column_added_to_the_table_counts_only_where_it_is_named(session: Any, table: str, tmp_path: Path) -> None:
    path = str(tmp_path / "copy")
    session.read.format("delta").load(table).write.format("delta").save(path)
    named: Job = lambda orders, _: orders.groupBy("order_date").agg(sf.max("id").alias("last"))  # noqa: E731
    whole: Job = lambda orders, _: orders.withColumn("more", sf.lit(1))  # noqa: E731
    before = leaves_read(session, path, named), leaves_read(session, path, whole)
    session.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN region_name STRING")
    assert leaves_read(session, path, named) == before[0]
    assert leaves_read(session, path, whole) != before[1]


def test_the_plan_is_one_leaf_and_asking_runs_no_job(session: Any, table: str) -> None:
    tracker = session.sparkContext.statusTracker()
    jobs = len(tracker.getJobIdsForGroup(None))
    (leaf,) = leaves_read(session, table, viewed)
    assert leaf.kind == PLAN
    assert len(tracker.getJobIdsForGroup(None)) == jobs


def of_catalog(query: str) -> Job:
    def job(orders: Any, session: Any) -> Any:
        orders.createOrReplaceTempView("today")
        return session.sql(query)

    return job


def test_what_a_function_of_the_catalog_computes_counts_although_the_plan_only_names_it(
    session: Any, table: str
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS counted")
    job = of_catalog("SELECT order_date, counted.gross(amount) AS gross FROM today")
    found = []
    try:
        for rate in ("1.19", "1.20", "1.20"):
            session.sql(f"CREATE OR REPLACE FUNCTION counted.vat(x DOUBLE) RETURNS DOUBLE RETURN x * {rate}")
            session.sql("CREATE OR REPLACE FUNCTION counted.gross(x DOUBLE) RETURNS DOUBLE RETURN counted.vat(x) + 1")
            found.append(inputs_hash(leaves_read(session, table, job)))
    finally:
        session.sql("DROP DATABASE counted CASCADE")
    assert found[0] != found[1] == found[2]
    assert None not in found


def test_a_function_of_the_catalog_that_reads_a_table_by_itself_is_never_the_same(session: Any, table: str) -> None:
    body = f"x + (SELECT max(amount) FROM delta.`{table}`)"
    session.sql(f"CREATE TEMPORARY FUNCTION most(x DOUBLE) RETURNS DOUBLE RETURN {body}")
    try:
        found = leaves_read(session, table, of_catalog("SELECT order_date, most(amount) AS m FROM today"))
    finally:
        session.sql("DROP TEMPORARY FUNCTION most")
    assert [leaf.identity for leaf in found if leaf.kind == FUNCTION] == [None]


def test_a_view_of_the_session_counts_by_what_it_is(session: Any, table: str) -> None:
    found = []
    for least in (1, 2, 2):
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW large AS SELECT * FROM delta.`{table}` WHERE amount > {least}")
        found.append(inputs_hash(leaves_read(session, table, of_catalog("SELECT * FROM large"))))
    session.sql("DROP VIEW large")
    assert found[0] != found[1] == found[2]
