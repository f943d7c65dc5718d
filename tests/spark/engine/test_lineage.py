"""What a frame reads, one test per kind of leaf. Two frames with the same hash of inputs are not computed again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from twice.core.lineage import inputs_hash
from twice.core.ports import Leaf
from twice.engine.lineage.leaves import leaves

pytestmark = pytest.mark.timeout(180)


class Table:
    """A Delta table of five days, one file a day, ten rows each (id 0-49, v = 2 id)."""

    def __init__(self, session: Any, path: Path, *, partitioned: bool = True, **properties: str) -> None:
        self.session, self.path = session, str(path)
        options = ", ".join(f"'{name.replace('_', '.')}' = '{value}'" for name, value in properties.items())
        session.sql(
            f"CREATE TABLE delta.`{path}` (id LONG, d DATE, v LONG) USING delta"
            + (" PARTITIONED BY (d)" if partitioned else "")
            + (f" TBLPROPERTIES ({options})" if options else "")
        )
        if partitioned:
            self.append(0, 50)

    def append(self, start: int, end: int) -> None:
        rows = self.session.range(start, end, 1, 1)
        days = rows.selectExpr("id", "date'2026-01-01' + cast(id DIV 10 AS int) AS d", "2 * id AS v")
        days.write.format("delta").mode("append").save(self.path)

    def frame(self, **options: Any) -> Any:
        return self.session.read.format("delta").options(**options).load(self.path)

    def day(self, day: int, **options: Any) -> Any:
        return self.frame(**options).where(f"d = date'2026-01-{day:02d}'")

    def sql(self, statement: str) -> None:
        self.session.sql(statement.format(table=f"delta.`{self.path}`")).collect()


@pytest.fixture
def table(session: Any, tmp_path: Path) -> Table:
    """A table of the test's own, to change."""
    return Table(session, tmp_path / "orders")


@pytest.fixture(scope="module")
def kept_table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    return Table(spark.newSession(), tmp_path_factory.mktemp("lineage") / "orders").path


@pytest.fixture
def orders(session: Any, kept_table: str) -> Table:
    """The same table for all tests that only read."""
    table = Table.__new__(Table)
    table.session, table.path = session, kept_table
    table.day(3).createOrReplaceTempView("today")
    table.day(4).createOrReplaceTempView("tomorrow")
    return table


def same(before: tuple[Leaf, ...], after: tuple[Leaf, ...]) -> bool:
    one, other = inputs_hash(before), inputs_hash(after)
    return one is not None and one == other


def only(found: tuple[Leaf, ...]) -> Leaf:
    (leaf,) = found
    return leaf


def test_a_pruned_scan_is_its_own_files_with_the_version_of_the_table(orders: Table) -> None:
    leaf = only(leaves(orders.day(3)))
    assert (leaf.kind, leaf.version) == ("delta", 1)
    assert leaf.name.endswith("/orders")
    assert leaf.identity != only(leaves(orders.day(4))).identity


def test_a_new_day_does_not_change_an_old_one(table: Table) -> None:
    old, new, empty = leaves(table.day(3)), leaves(table.day(6)), leaves(table.day(9))
    table.append(50, 60)
    assert same(old, leaves(table.day(3)))
    assert same(empty, leaves(table.day(9))), "a day without files stays one"
    assert not same(new, leaves(table.day(6)))
    assert not same(leaves(table.day(3)), leaves(table.frame()))


def test_a_file_skipped_by_its_statistics_is_not_read(session: Any, tmp_path: Path) -> None:
    table = Table(session, tmp_path / "plain", partitioned=False)
    table.append(0, 10)
    low = leaves(table.frame().where("id < 10"))
    table.append(10, 20)
    assert same(low, leaves(table.frame().where("id < 10")))
    assert not same(low, leaves(table.frame().where("id < 11")))


def test_a_deletion_vector_under_the_same_path_is_another_file(session: Any, tmp_path: Path) -> None:
    table = Table(session, tmp_path / "dv", delta_enableDeletionVectors="true")
    before, files = leaves(table.day(3)), table.day(3).inputFiles()
    table.sql("DELETE FROM {table} WHERE id = 25")
    assert table.day(3).inputFiles() == files
    assert not same(before, leaves(table.day(3)))


def test_an_update_in_the_slice_changes_it_and_one_elsewhere_does_not(table: Table) -> None:
    before = leaves(table.day(3))
    table.sql("UPDATE {table} SET v = 0 WHERE id = 49")
    assert same(before, leaves(table.day(3)))
    table.sql("UPDATE {table} SET v = 0 WHERE id = 25")
    assert not same(before, leaves(table.day(3)))


def test_a_scalar_subquery_is_a_leaf(orders: Table, session: Any) -> None:
    found = leaves(session.sql("SELECT id, (SELECT max(v) FROM tomorrow) AS m FROM today"))
    assert len(found) == 2
    assert not same(found, leaves(session.sql("SELECT id, (SELECT max(v) FROM today) AS m FROM today")))


@pytest.mark.parametrize(
    "condition",
    ["EXISTS (SELECT 1 FROM tomorrow t WHERE t.v = today.v)", "v IN (SELECT v FROM tomorrow)"],
)
def test_a_subquery_in_a_condition_is_a_leaf(orders: Table, session: Any, condition: str) -> None:
    found = leaves(session.sql(f"SELECT id FROM today WHERE {condition}"))
    assert len(found) == 2


@pytest.mark.long
def test_a_cached_frame_is_the_files_it_was_computed_from(table: Table) -> None:
    kept = table.day(3).groupBy("d").sum("v").cache()
    try:
        kept.count()
        found = leaves(kept.selectExpr("*", "1 AS one"))
        assert only(found).version == 1
        # Another writer, by another path: Spark would refresh the cache for a write of its own session.
        other = Path(table.path).with_name("link")
        other.symlink_to(table.path)
        table.day(3).write.format("delta").mode("append").save(str(other))
        assert same(found, leaves(kept.selectExpr("*", "1 AS one")))
    finally:
        kept.unpersist()
    assert not same(found, leaves(kept.selectExpr("*", "1 AS one")))


def test_a_cached_answer_from_the_log_cannot_be_versioned(orders: Table, session: Any) -> None:
    kept = session.sql(f"SELECT count(*) AS n FROM delta.`{orders.path}`").cache()
    try:
        kept.count()
        assert inputs_hash(leaves(kept.selectExpr("n + 1"))) is None
    finally:
        kept.unpersist()


def test_a_count_answered_from_the_log_is_the_version_of_the_table(table: Table) -> None:
    counted = table.frame().groupBy().count()
    plan = counted._jdf.queryExecution().optimizedPlan().toString()
    assert "LocalRelation" in plan
    found = leaves(counted)
    assert only(found).version == 1
    assert same(found, leaves(table.frame().groupBy().count()))
    table.append(50, 60)
    assert not same(found, leaves(table.frame().groupBy().count()))


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_plain_files_are_path_size_and_time(session: Any, tmp_path: Path, form: str) -> None:
    path = tmp_path / form
    session.range(5).write.format(form).save(str(path))

    def read() -> tuple[Leaf, ...]:
        return leaves(session.read.format(form).schema("id LONG").load(str(path)))

    before = read()
    assert only(before).kind == "files"
    assert same(before, read())
    file = next(each for each in path.iterdir() if each.name.startswith("part-"))
    os.utime(file, (time.time() + 10, time.time() + 10))
    assert not same(before, read())


def test_a_database_cannot_be_versioned(session: Any) -> None:
    url = "jdbc:derby:memory:lineage;create=true"
    frame = session.read.format("jdbc").options(url=url, query="SELECT 1 AS x FROM sysibm.sysdummy1").load()
    found = leaves(frame)
    assert only(found).identity is None
    assert "JDBC" in only(found).name
    assert inputs_hash(found) is None


def test_a_python_data_source_cannot_be_versioned(session: Any) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Rates(DataSource):
        @classmethod
        def name(cls) -> str:
            return "rates"

        def schema(self) -> str:
            return "x INT"

        def reader(self, schema: Any) -> DataSourceReader:
            raise NotImplementedError("only planned here")

    session.dataSource.register(Rates)
    assert only(leaves(session.read.format("rates").load())).identity is None


def test_rows_made_in_python_cannot_be_versioned(session: Any) -> None:
    assert only(leaves(session.createDataFrame([(1,)], "x INT"))).identity is None


def test_a_stream_cannot_be_versioned(session: Any, orders: Table) -> None:
    assert only(leaves(session.readStream.format("delta").load(orders.path))).identity is None


def test_one_unversioned_leaf_makes_the_whole_unversioned(session: Any, orders: Table) -> None:
    frame = orders.day(3).join(session.createDataFrame([(1,)], "id LONG"), "id")
    assert len(leaves(frame)) == 2
    assert inputs_hash(leaves(frame)) is None


def test_literal_data_is_versioned_by_its_content(session: Any) -> None:
    def values(text: str) -> tuple[Leaf, ...]:
        return leaves(session.sql(f"SELECT * FROM VALUES {text} AS t(a, b)"))

    assert same(values("(1, 'x'), (2, NULL)"), values("(1, 'x'), (2, NULL)"))
    assert not same(values("(1, 'x'), (2, NULL)"), values("(1, 'x'), (2, 'NULL')"))
    assert same(leaves(session.range(5)), leaves(session.range(5)))
    assert not same(leaves(session.range(5)), leaves(session.range(6)))
    assert only(leaves(session.sql("SELECT 1"))).kind == "literal"


def test_a_view_is_the_table_behind_it(orders: Table, session: Any) -> None:
    orders.frame().createOrReplaceTempView("all_orders")
    session.sql("CREATE OR REPLACE TEMP VIEW one_day AS SELECT id, d, v FROM all_orders WHERE d = date'2026-01-03'")
    assert same(leaves(session.sql("SELECT * FROM one_day")), leaves(orders.day(3)))


def test_a_cte_read_twice_is_the_table_behind_it(orders: Table, session: Any) -> None:
    def twice_read(view: str) -> tuple[Leaf, ...]:
        cte = f"WITH c AS (SELECT * FROM {view}) SELECT a.id, b.v FROM c a JOIN c b ON a.id = b.id + 1"
        return leaves(session.sql(cte))

    assert {leaf.kind for leaf in twice_read("today")} == {"delta"}
    assert same(twice_read("today"), twice_read("today"))
    assert not same(twice_read("today"), twice_read("tomorrow"))


def test_a_self_join_and_a_union_read_each_side(orders: Table) -> None:
    joined = orders.day(3).alias("a").join(orders.day(4).alias("b"), on="id", how="left").select("a.id", "b.v")
    union = orders.day(3).union(orders.day(4))
    assert len(leaves(joined)) == len(leaves(union)) == 2


def test_a_udf_in_between_hides_nothing(orders: Table) -> None:
    from pyspark.sql.functions import udf

    twice_as_much = udf(lambda value: value * 2, "long")
    assert same(leaves(orders.day(3).select(twice_as_much("v"))), leaves(orders.day(3).select("v")))


def test_a_table_the_optimiser_left_out_still_counts(orders: Table, session: Any) -> None:
    frame = orders.day(3).join(orders.day(4).where("false"), "id", "left_anti")
    before = leaves(frame)
    assert len(before) == 2
    assert inputs_hash(before) is not None


@pytest.mark.long
def test_time_travel_reads_what_the_version_held(table: Table) -> None:
    first = leaves(table.day(3, versionAsOf=1))
    table.sql("UPDATE {table} SET v = 0 WHERE id = 25")
    assert same(first, leaves(table.day(3, versionAsOf=1)))
    assert only(leaves(table.day(3, versionAsOf=1))).version == 1
    assert not same(first, leaves(table.day(3, versionAsOf=2)))


def test_the_same_files_in_another_table_are_not_the_same(session: Any, tmp_path: Path) -> None:
    one = Table(session, tmp_path / "one", partitioned=False)
    two = Table(session, tmp_path / "two", partitioned=False)
    assert not same(leaves(one.frame()), leaves(two.frame()))


def test_a_column_added_to_a_table_counts_only_where_it_is_read(table: Table) -> None:
    narrow, wide = leaves(table.day(3).select("id")), leaves(table.day(3))
    table.sql("ALTER TABLE {table} ADD COLUMN note STRING")
    assert same(narrow, leaves(table.day(3).select("id")))
    assert not same(wide, leaves(table.day(3)))


def test_files_that_were_only_rearranged_are_the_same(session: Any, tmp_path: Path) -> None:
    table = Table(session, tmp_path / "orders")
    table.append(20, 25)
    before = leaves(table.day(3))
    table.sql("OPTIMIZE {table}")
    assert not same(before, leaves(table.day(3)))
    after = leaves(table.day(3), before)
    assert after == before
    table.append(50, 60)
    assert leaves(table.day(3), before) == before, "a new day beside it changes nothing"
    table.append(25, 26)
    assert not same(before, leaves(table.day(3), before))


@pytest.mark.long
def test_text_that_some_take_for_the_end_of_a_line_is_read_with_its_commit(table: Table) -> None:
    """Delta writes such characters into its log as they are."""
    table.append(20, 25)
    before = leaves(table.day(3))
    table.sql("OPTIMIZE {table}")
    table.session.conf.set("spark.databricks.delta.commitInfo.userMetadata", "a\u2028b\u2029c\u0085d")
    table.append(50, 60)
    assert same(before, leaves(table.day(3), before))


@pytest.mark.long
def test_rearranged_again_after_other_data_came_is_not_the_same(table: Table) -> None:
    table.append(20, 25)
    before = leaves(table.day(3))
    table.append(25, 26)
    table.sql("OPTIMIZE {table}")
    assert not same(before, leaves(table.day(3), before))


@pytest.mark.long
def test_rows_deleted_before_an_optimize_are_noticed(table: Table) -> None:
    table.append(20, 25)
    before = leaves(table.day(3))
    table.sql("DELETE FROM {table} WHERE id = 25")
    table.sql("OPTIMIZE {table}")
    assert not same(before, leaves(table.day(3), before))


@pytest.mark.long
def test_without_its_log_nothing_is_shown_to_be_rearranged(table: Table) -> None:
    table.append(20, 25)
    before = leaves(table.day(3))
    table.sql("OPTIMIZE {table}")
    table.append(50, 60)
    assert same(before, leaves(table.day(3), before))
    session = table.session
    session._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, table.path).checkpoint()
    (Path(table.path) / "_delta_log" / f"{3:020d}.json").unlink()
    assert not same(before, leaves(table.day(3), before))


def test_asking_runs_no_job_over_the_data(orders: Table) -> None:
    """Any task that touched a row would raise."""
    heavy = orders.frame().selectExpr("raise_error('the data was read') AS e").groupBy("e").count()
    assert inputs_hash(leaves(heavy)) is not None


def test_a_frame_asked_again_shows_the_new_state(table: Table) -> None:
    frame = table.day(3)
    before = leaves(frame)
    table.append(20, 21)
    assert not same(before, leaves(frame))


def test_a_hash_needs_at_least_one_leaf_and_every_identity() -> None:
    versioned = Leaf("delta", "orders", "abc", 1)
    assert inputs_hash(()) is None
    assert inputs_hash((versioned, Leaf("relation", "jdbc", None))) is None
    assert inputs_hash((versioned,)) == inputs_hash((Leaf("delta", "moved", "abc", 7), versioned))
    assert inputs_hash((versioned,)) != inputs_hash((Leaf("delta", "orders", "abd", 1),))
