"""The plan guard: what it reports, with the columns reached, and what it must let pass. Plans only, no jobs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as fn

from twice.core.ports import ALL_ROWS
from twice.engine.guard import suspects
from twice.engine.guard.guard import suspicions

ORDERS = "id LONG, day DATE, region STRING, amount DECIMAL(12,2), tags ARRAY<STRING>"


@pytest.fixture
def orders(session: Any) -> Any:
    frame = session.createDataFrame([], ORDERS)
    frame.createOrReplaceTempView("orders")
    return frame


def found(frame: Any) -> dict[str, tuple[str, ...]]:
    return {each.name: each.columns for each in suspicions(frame)}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("rand()", "rand"),
        ("rand(42)", "rand"),
        ("randn()", "randn"),
        ("uniform(1, 5)", "uniform"),
        ("randstr(3)", "randstr"),
        ("uuid()", "uuid"),
        ("shuffle(tags)", "shuffle"),
        ("monotonically_increasing_id()", "monotonically_increasing_id"),
        ("spark_partition_id()", "spark_partition_id"),
        ("current_timestamp()", "current_timestamp"),
        ("now()", "current_timestamp"),
        ("unix_timestamp()", "current_timestamp"),
        ("CAST('today' AS DATE)", "current_timestamp"),
        ("localtimestamp()", "localtimestamp"),
        ("current_date()", "current_date"),
        ("curdate()", "current_date"),
        ("current_time()", "current_time"),
        ("current_user()", "current_user"),
        ("input_file_name()", "input_file_name"),
        ("reflect('java.util.UUID', 'randomUUID')", "nondeterministic"),
    ],
)
def test_an_expression_that_differs_is_named_with_its_column(session: Any, expression: str, name: str) -> None:
    assert found(session.sql(f"SELECT id, {expression} AS x FROM orders")) == {name: ("x",)}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("first(amount)", "first"),
        ("last(amount, true)", "last"),
        ("any_value(amount)", "any_value"),
        ("collect_list(amount)", "collect_list"),
        ("array_agg(amount)", "collect_list"),
        ("collect_set(amount)", "collect_set"),
        ("concat_ws(',', collect_list(region))", "collect_list"),
        ("sort_array(slice(collect_list(amount), 1, 3))", "collect_list"),
        ("listagg(region, ',')", "listagg"),
        ("string_agg(region)", "listagg"),
        ("mode(amount)", "mode"),
    ],
)
def test_an_aggregate_that_depends_on_the_order_of_rows_is_named(session: Any, expression: str, name: str) -> None:
    assert found(session.sql(f"SELECT day, {expression} AS x FROM orders GROUP BY day")) == {name: ("x",)}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    "expression",
    [
        "sort_array(collect_list(amount))",
        "array_sort(collect_set(amount))",
        "array_join(sort_array(array_distinct(collect_list(region))), ',')",
        "size(collect_set(region))",
        "array_max(collect_list(amount))",
        "array_contains(collect_list(region), 'EU')",
        "listagg(region, ',') WITHIN GROUP (ORDER BY region)",
        "mode() WITHIN GROUP (ORDER BY amount)",
        "first(day)",
        "first('a constant')",
        "max_by(amount, id)",
        "count(DISTINCT region)",
        "sum(CAST(amount AS DOUBLE))",
        "assert_true(count(*) > 0)",
    ],
)
def test_an_aggregate_that_is_certain_passes(session: Any, expression: str) -> None:
    assert found(session.sql(f"SELECT day, {expression} AS x FROM orders GROUP BY day")) == {}


def test_a_list_sorted_in_a_later_step_passes_and_one_used_before_does_not(orders: Any) -> None:
    lists = orders.groupBy("day").agg(fn.collect_list("id").alias("ids"))
    assert found(lists.withColumn("ids", fn.sort_array("ids"))) == {}
    assert found(lists.withColumn("ids", fn.sort_array("ids")).withColumn("first", fn.col("ids")[0])) == {}
    assert found(lists.withColumn("first", fn.col("ids")[0]).drop("ids")) == {"collect_list": ("first",)}
    assert found(lists.select("day", fn.explode("ids"))) == {}
    assert found(lists.select("day", fn.posexplode("ids"))) == {"collect_list": ("pos", "col")}


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("row_number", "row_number"),
        ("first", "first"),
        ("lag", "lag"),
        ("ntile", "ntile"),
        ("collect_list", "collect_list"),
    ],
)
def test_a_window_needs_an_order_that_tells_rows_apart(orders: Any, function: str, name: str) -> None:
    make = getattr(fn, function)
    column = {"row_number": make, "ntile": lambda: make(4)}.get(function, lambda: make("amount"))
    by_region = Window.partitionBy("region")
    assert found(orders.select("id", column().over(by_region.orderBy("id")).alias("x"))) == {}
    assert found(orders.select("id", column().over(by_region.orderBy(fn.lit(1))).alias("x"))) == {name: ("x",)}
    assert found(orders.select("id", column().over(by_region.orderBy("region")).alias("x"))) == {name: ("x",)}


def test_an_aggregate_over_a_window_without_order_passes(orders: Any) -> None:
    assert found(orders.select("id", fn.sum("amount").over(Window.partitionBy("region")))) == {}
    assert found(orders.select("id", fn.rank().over(Window.partitionBy("region").orderBy("amount")))) == {}


def test_what_a_window_is_ordered_by_reaches_its_column(orders: Any) -> None:
    frame = orders.withColumn("r", fn.rand())
    numbered = frame.select("id", fn.row_number().over(Window.orderBy("r")).alias("n"))
    assert found(numbered) == {"rand": ("n",)}


def test_a_limit_needs_an_order(orders: Any) -> None:
    assert found(orders.limit(3)) == {"limit": (ALL_ROWS,)}
    assert found(orders.orderBy("id").limit(3)) == {}
    assert found(orders.orderBy("id").select("amount").limit(3)) == {}
    assert found(orders.offset(3)) == {"limit": (ALL_ROWS,)}
    assert found(orders.orderBy("id").offset(2).limit(3)) == {}
    assert found(orders.orderBy(fn.lit("x")).limit(3)) == {"limit": (ALL_ROWS,)}
    assert found(orders.orderBy(fn.rand()).limit(3)) == {"rand": (ALL_ROWS,)}
    assert found(orders.sortWithinPartitions("id").limit(3)) == {"limit": (ALL_ROWS,)}
    assert found(orders.orderBy("id").groupBy("region").count().limit(3)) == {"limit": (ALL_ROWS,)}


def test_a_limit_that_cannot_choose_passes(orders: Any, session: Any) -> None:
    assert found(orders.limit(0)) == {}
    assert found(orders.groupBy().count().limit(1)) == {}
    assert found(session.sql("SELECT * FROM VALUES (1), (2) LIMIT 1")) == {}
    assert (
        found(session.sql("SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id LIMIT 1)"))
        == {}
    )


def test_a_limit_below_a_condition_of_exists_does_choose(orders: Any, session: Any) -> None:
    inner = "SELECT 1 FROM (SELECT * FROM orders LIMIT 5) p WHERE p.id > 3"
    assert found(session.sql(f"SELECT * FROM orders WHERE EXISTS ({inner})")) == {"limit": (ALL_ROWS,)}


def test_a_sample_is_named(orders: Any) -> None:
    assert found(orders.sample(0.5, 7)) == {"sample": (ALL_ROWS,)}
    assert found(orders.randomSplit([0.5, 0.5], 7)[0]) == {"sample": (ALL_ROWS,)}


def test_dropping_duplicates_by_a_subset_makes_the_other_columns_arbitrary(orders: Any) -> None:
    some = orders.select("id", "region", "amount")
    assert found(some.dropDuplicates(["id"])) == {"drop_duplicates": ("region", "amount")}
    assert found(some.dropDuplicates(["id"]).select("id")) == {}
    assert found(some.dropDuplicates(["id"]).groupBy().count()) == {}
    assert found(some.dropDuplicates()) == {}
    assert found(some.distinct()) == {}


def test_a_udf_counts_only_if_it_is_declared_non_deterministic(orders: Any) -> None:
    plain = fn.udf(lambda value: value, "string")
    assert found(orders.select(plain("region").alias("x"))) == {}
    assert found(orders.select("id", plain.asNondeterministic()("region").alias("x"))) == {"udf": ("x",)}


def test_a_column_that_never_reaches_the_result_passes(orders: Any) -> None:
    frame = orders.withColumn("loaded", fn.current_timestamp()).withColumn("copy", fn.col("loaded"))
    assert found(frame) == {"current_timestamp": ("loaded", "copy")}
    assert found(frame.drop("loaded", "copy")) == {}
    assert found(frame.groupBy("region").agg(fn.sum("amount"))) == {}


def test_what_decides_on_rows_reaches_all_of_them(orders: Any) -> None:
    assert found(orders.where("day < current_date()")) == {"current_date": (ALL_ROWS,)}
    assert found(orders.where(fn.rand() < 0.1).select("id")) == {"rand": (ALL_ROWS,)}
    joined = orders.alias("a").join(orders.alias("b"), fn.expr("a.id = b.id AND b.day < current_date()"))
    assert found(joined.select("a.id")) == {"current_date": (ALL_ROWS,)}
    assert found(orders.groupBy(fn.spark_partition_id().alias("p")).count()) == {"spark_partition_id": (ALL_ROWS,)}


def test_moving_rows_at_random_changes_none(orders: Any) -> None:
    assert found(orders.repartition(4, fn.rand())) == {}
    assert found(orders.orderBy(fn.rand())) == {}


def test_columns_are_followed_through_joins_unions_and_aggregates(orders: Any) -> None:
    stamped = orders.select("id", fn.current_timestamp().alias("at"), fn.uuid().alias("key"))
    joined = orders.select("id", "region").join(stamped, "id").select("region", fn.col("at").alias("seen"))
    assert found(joined) == {"current_timestamp": ("seen",)}
    union = orders.select("id", "region").union(orders.select("id", fn.uuid().alias("whatever")))
    assert found(union) == {"uuid": ("region",)}
    latest = stamped.groupBy("id").agg(fn.max("at").alias("latest"), fn.count("*").alias("n"))
    assert found(latest) == {"current_timestamp": ("latest",)}
    assert found(orders.select("id").exceptAll(stamped.select(fn.hash("key").cast("long")))) == {"uuid": (ALL_ROWS,)}


@pytest.mark.usefixtures("orders")
def test_subqueries_and_ctes_are_followed(session: Any) -> None:
    assert found(session.sql("SELECT id, (SELECT first(region) FROM orders) AS r FROM orders")) == {"first": ("r",)}
    assert found(session.sql("SELECT id, (SELECT region FROM orders LIMIT 1) AS r FROM orders")) == {"limit": ("r",)}
    in_list = "SELECT * FROM orders WHERE id IN (SELECT id FROM orders WHERE day = current_date())"
    assert found(session.sql(in_list)) == {"current_date": (ALL_ROWS,)}
    cte = "WITH c AS (SELECT id, uuid() AS u, region FROM orders) SELECT a.region, b.u FROM c a JOIN c b ON a.id = b.id"
    assert found(session.sql(cte)) == {"uuid": ("u",)}
    unused = "WITH c AS (SELECT uuid() AS u FROM orders LIMIT 3) SELECT id FROM orders"
    assert found(session.sql(unused)) == {}
    drawn = "(SELECT id, rand() AS r FROM orders) o"
    outer = f"SELECT o.id, (SELECT max(amount) FROM orders p WHERE p.amount > o.r) AS m FROM {drawn}"
    assert found(session.sql(outer)) == {"rand": ("m",)}
    lateral = "SELECT o.id, l.u FROM orders o, LATERAL (SELECT first(region) AS u FROM orders p WHERE p.id = o.id) l"
    assert found(session.sql(lateral)) == {"first": ("u",)}
    outer = f"SELECT o.id, l.z FROM {drawn}, LATERAL (SELECT o.r + 1 AS z) l"
    assert found(session.sql(outer)) == {"rand": ("z",)}


@pytest.mark.usefixtures("orders")
def test_grouping_sets_pivot_and_unpivot_are_followed(session: Any, orders: Any) -> None:
    stamped = "(SELECT *, uuid() AS u FROM orders)"
    rollup = f"SELECT region, day, max(u) AS m, sum(amount) AS s FROM {stamped} GROUP BY ROLLUP (region, day)"
    assert found(session.sql(rollup)) == {"uuid": ("m",)}
    assert found(orders.groupBy("day").pivot("region", ["EU", "US"]).agg(fn.sum("amount"))) == {}
    wide = orders.select("id", fn.rand().alias("a"), fn.lit(1.0).alias("b"))
    assert found(wide.unpivot("id", ["a", "b"], "name", "value")) == {"rand": ("name", "value")}


def test_file_metadata_is_named(session: Any, tmp_path: Path) -> None:
    session.range(3).write.parquet(str(tmp_path / "files"))
    frame = session.read.parquet(str(tmp_path / "files"))
    assert found(frame.select("id", "_metadata.file_path")) == {"_metadata": ("file_path",)}
    assert found(frame.select("id")) == {}


def test_names_are_reported_once_with_a_reason_and_a_remedy(orders: Any) -> None:
    (suspicion,) = suspicions(orders.select(fn.rand().alias("a"), "id", fn.rand().alias("b")))
    assert (suspicion.name, suspicion.columns) == ("rand", ("a", "b"))
    assert suspicion.why and suspicion.fix.endswith(".")


def test_every_word_has_its_reason() -> None:
    words = {*suspects.WORDS.values(), *suspects.ORDER_WORDS.values()}
    assert words <= suspects.REASONS.keys()
    assert all(reason.fix.endswith(".") for reason in suspects.REASONS.values())


def wide_and_deep(session: Any) -> Any:
    frame = session.range(1).select(*[fn.lit(i).alias(f"c{i}") for i in range(200)])
    for step in range(30):
        frame = frame.withColumn("c0", fn.col("c0") + step)
    return frame


def test_a_wide_and_deep_plan_without_suspects_is_read_in_well_under_a_second(session: Any) -> None:
    frame = wide_and_deep(session)
    suspicions(frame)

    def took() -> float:
        started = time.perf_counter()
        assert found(frame) == {}
        return time.perf_counter() - started

    assert min(took() for _ in range(3)) < 1.0  # another process may be in the way of one of them


def test_a_suspect_far_down_a_wide_plan_is_followed_to_its_column(session: Any) -> None:
    frame = session.range(1).select(fn.rand().alias("c0"), *[fn.lit(i).alias(f"c{i}") for i in range(1, 50)])
    for step in range(10):
        frame = frame.withColumn("c0", fn.col("c0") + step)
    assert found(frame.withColumn("c7", fn.col("c0") * 2)) == {"rand": ("c0", "c7")}


def test_a_plan_may_be_deeper_than_the_stack_of_python(session: Any) -> None:
    from twice.engine.catalyst import bottom_up, parse

    deep = [{"class": "x.Project", "num-children": 1}] * 5000 + [{"class": "x.Leaf", "num-children": 0}]
    assert len(bottom_up(parse(json.dumps(deep)))) == 5001
