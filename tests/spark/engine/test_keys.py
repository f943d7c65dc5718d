"""One key from Spark columns, from Spark SQL and from Python values, whatever the session is set to."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType, _parse_datatype_string

from twice import keys, stable_row_hash, surrogate_key
from twice.errors import UsageError
from twice.keys import WallTime, stable_row_hash_sql, surrogate_key_sql

UTC = timezone.utc
SETTINGS = [
    {"spark.sql.session.timeZone": "UTC"},
    {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "false"},
    {"spark.sql.session.timeZone": "Asia/Kathmandu", "spark.sql.legacy.timeParserPolicy": "LEGACY"},
    {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
    {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
]


def _instants() -> list[datetime]:
    edges = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(1582, 10, 4, 23, 59, 59, 999999, UTC),
        datetime(1582, 10, 15, tzinfo=UTC),  # the first day of the new calendar
        datetime(1883, 11, 18, 17, 0, 1, tzinfo=UTC),  # New York's clocks had no whole offset before
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 11, 1, 5, 30, tzinfo=UTC),  # 01:30 in New York,
        datetime(2026, 11, 1, 6, 30, tzinfo=UTC),  # and 01:30 again
        datetime(2026, 3, 8, 7, 0, 0, 1, UTC),
        datetime(2026, 6, 9, 22, 15, 0, 120000, UTC),
        datetime(2026, 6, 10, 4, 0, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    ]
    chance = random.Random(4)
    span = datetime(9999, 12, 30, tzinfo=UTC) - edges[0]
    return edges + [
        edges[0] + timedelta(microseconds=chance.randrange(span // timedelta(microseconds=1))) for _ in range(150)
    ]


def _doubles() -> list[float]:
    edges = [0.0, -0.0, 1.0, -1.5, 0.1, 1e23, 2e-3, 2.2250738585072014e-308, 5e-324, 1.7976931348623157e308]
    chance = random.Random(5)
    edges += [float("nan"), float("inf"), float("-inf")]
    return [*edges, *(chance.uniform(-1, 1) * 10.0 ** chance.randint(-300, 300) for _ in range(150))]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    chance = random.Random(6)
    digits = [0, 1, -1, 10, -100, 10**precision - 1, 1 - 10**precision]
    digits += [chance.randrange(10 ** chance.randint(1, precision)) * chance.choice([1, -1]) for _ in range(60)]
    digits += [value // 1000 * 1000 for value in digits[7:]]
    return [Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale)) for value in digits]


WALL = [value.astimezone(UTC).replace(tzinfo=None) for value in _instants()]
TABLE: dict[str, list[Any]] = {
    "tinyint": [-128, -1, 0, 1, 127],
    "smallint": [-32768, 1, 32767],
    "int": [-(2**31), 1, 100, 2**31 - 1],
    "bigint": [-(2**63), -1000, 1, 2**63 - 1],
    "decimal(38,0)": _decimals(38, 0),
    "decimal(10,2)": [Decimal("1.10"), Decimal("1.00"), Decimal("100.00"), *_decimals(10, 2)],
    "decimal(18,18)": _decimals(18, 18),
    "decimal(38,38)": _decimals(38, 38),
    "decimal(38,10)": _decimals(38, 10),
    "double": _doubles(),
    "boolean": [True, False],
    "date": [value.date() for value in WALL],
    "timestamp": _instants(),
    "timestamp_ntz": [WallTime(value) for value in WALL],
    "string": [
        "",
        "NULL",
        " ",
        "a",
        "a;b",
        "N;",
        "s1:a;",
        "\0",
        "a\0b",
        "Zoë",
        "e\u0301",
        "日本",
        "🛒",
        "\U0010ffff",
        "'\"\\",
        "\r\n",
    ],
    "binary": [b"", b"\0", b"a", b"\xff\x00\x80", bytes(range(256))],
}


@pytest.mark.parametrize("conf", SETTINGS, ids=lambda conf: " ".join(conf.values()))
def test_spark_and_python_give_one_key_for_every_type_under_every_setting(
    session: SparkSession, conf: dict[str, str]
) -> None:
    rows = _table(session)
    names = [name for name in rows.columns if name != "row"]
    with _set(session, conf):
        found = rows.repartition(5).select("row", *(surrogate_key(name).alias(name) for name in names)).collect()
    expected = {
        (name, number): keys.surrogate_key(value)
        for number, row in enumerate(_rows())
        for name, value in zip(names, row, strict=True)
    }
    assert {(name, each.row): each[name] for each in found for name in names} == expected


def test_rows_of_several_columns_have_one_key_and_one_hash_however_they_are_computed(session: SparkSession) -> None:
    rows = _table(session).drop("row")
    names = rows.columns
    found = (
        rows.repartition(3)
        .select(
            surrogate_key(*names).alias("by_name"),
            surrogate_key(*map(sf.col, names)).alias("by_column"),
            sf.expr(surrogate_key_sql(*names)).alias("by_sql"),
            stable_row_hash(rows).alias("hash"),
            stable_row_hash(*reversed(names)).alias("hash_by_name"),
            sf.expr(stable_row_hash_sql(*(name.upper() for name in names))).alias("hash_by_sql"),
        )
        .collect()
    )
    known = {keys.surrogate_key(*row): keys.stable_row_hash(dict(zip(names, row, strict=True))) for row in _rows()}
    assert {(row.by_name, row.hash) for row in found} == set(known.items())
    assert all(row.by_name == row.by_column == row.by_sql for row in found)
    assert all(row.hash == row.hash_by_name == row.hash_by_sql for row in found)


TYPED = {
    "s": st.text(max_size=20),
    "n": st.decimals(min_value=-(10**20), max_value=10**20, places=12, allow_nan=False, allow_infinity=False),
    "f": st.floats(),
    "t": st.datetimes(timezones=st.just(UTC)),
    "d": st.dates(),
    "x": st.binary(max_size=20),
}
ROWS = st.lists(st.tuples(*(st.none() | value for value in TYPED.values())), min_size=20, max_size=60)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_whatever_the_values_spark_agrees_with_python(session: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    frame = session.createDataFrame(rows, "s string, n decimal(38,12), f double, t timestamp, d date, x binary")
    found = frame.select(surrogate_key(*TYPED), stable_row_hash(frame)).collect()
    python = [(keys.surrogate_key(*row), keys.stable_row_hash(dict(zip(TYPED, row, strict=True)))) for row in rows]
    assert [tuple(row) for row in found] == python


def test_a_float_has_the_key_of_the_double_of_the_same_value(session: SparkSession) -> None:
    values = session.sql("SELECT explode(array(0.1f, -0.0f, 1.4e-45f, float('3.4028235e38'), float('NaN'))) AS f")
    found = values.select(surrogate_key("f"), surrogate_key(sf.col("f").cast("double")), sf.col("f").cast("double"))
    for key, doubled, value in found.collect():
        assert key == doubled == keys.surrogate_key(value)


def test_a_column_that_grows_keeps_its_keys(session: SparkSession) -> None:
    kinds = ("tinyint", "smallint", "int", "bigint", "decimal(3,0)", "decimal(20,4)", "decimal(38,30)")
    found = session.range(7, 8).select(*(surrogate_key(sf.col("id").cast(kind)) for kind in kinds)).collect()[0]
    assert set(found) == {keys.surrogate_key(7)}


def test_a_null_has_one_key_whatever_its_type(session: SparkSession) -> None:
    kinds = ("void", "string", "int", "timestamp", "binary", "array<int>")
    found = session.range(1).select(*(surrogate_key(sf.lit(None).cast(kind)) for kind in kinds)).collect()[0]
    assert set(found) == {keys.surrogate_key(None)}


def test_a_decimal_with_a_negative_scale_is_its_number(session: SparkSession) -> None:
    with _set(session, {"spark.sql.legacy.allowNegativeScaleOfDecimal": "true"}):
        rows = session.sql("SELECT 12E3BD AS v")
        assert rows.schema["v"].dataType.simpleString() == "decimal(2,-3)"
        assert rows.select(surrogate_key("v")).collect()[0][0] == keys.surrogate_key(Decimal("12E3"))


def test_a_collation_changes_no_key(session: SparkSession) -> None:
    found = session.sql("SELECT 'Zoë' COLLATE UTF8_LCASE AS v").select(surrogate_key("v")).collect()[0][0]
    assert found == keys.surrogate_key("Zoë")


def test_a_string_that_is_not_utf_8_keeps_its_bytes_apart(session: SparkSession) -> None:
    rows = session.sql("SELECT string(X'FF') AS a, string(X'FE') AS b, '\ufffd' AS c")
    assert len(set(rows.select(*(surrogate_key(name) for name in "abc")).collect()[0])) == 3


@pytest.mark.parametrize(
    "value",
    ["array(1)", "map(1, 2)", "named_struct('a', 1)", "parse_json('1')", "INTERVAL '1' DAY", "TIME'01:02:03'"],
)
def test_a_type_the_recipe_does_not_know_fails_with_its_name_and_the_way_out(session: SparkSession, value: str) -> None:
    rows = session.sql(f"SELECT {value} AS v, typeof({value}) AS kind FROM range(1)")
    message = f"a key does not take a column of type {rows.collect()[0].kind}. Name its parts"
    for key in (surrogate_key("v"), surrogate_key(sf.col("v")), sf.expr(surrogate_key_sql("v")), stable_row_hash("v")):
        with pytest.raises(PySparkException, match=re.escape(message)):
            rows.select(key).collect()


def test_a_row_hash_of_a_frame_refuses_such_a_type_before_anything_runs(session: SparkSession) -> None:
    rows = session.sql("SELECT 1 AS id, array(1) AS tags, 'a' COLLATE UTF8_LCASE AS note, NULL AS nothing")
    with pytest.raises(UsageError, match="column tags: a key does not take a column of type array<int>"):
        stable_row_hash(rows)
    assert rows.select(stable_row_hash(rows, "id", "nothing")).collect()[0][0] == keys.stable_row_hash(
        {"id": 1, "nothing": None}
    )


def test_names_are_read_as_spark_reads_them(session: SparkSession) -> None:
    columns = ["a.b", "with space", "it's", "`tick`", "back\\slash", "Größe", '"q"']
    schema = StructType([StructField(name, StringType()) for name in columns])
    rows = session.createDataFrame([tuple(columns)], schema)
    assert rows.select(stable_row_hash(rows)).collect()[0][0] == keys.stable_row_hash({name: name for name in columns})
    nested = session.sql("SELECT named_struct('id', 7) AS o")
    assert nested.select(surrogate_key("o.id")).collect()[0][0] == keys.surrogate_key(7)
    rows.createOrReplaceTempView("strange")
    query = f"SELECT {surrogate_key_sql('s.`a.b`', 's.with space')} AS k FROM strange AS s"
    assert session.sql(query).collect()[0].k == keys.surrogate_key("a.b", "with space")


def test_a_key_may_stand_wherever_a_column_may(session: SparkSession) -> None:
    rows = session.sql("SELECT 7 AS id, 'DE' AS region")
    known = keys.surrogate_key("DE", 7)
    assert rows.select(surrogate_key("region", "id")).columns == ["surrogate_key"]
    assert rows.withColumn("sk", surrogate_key("region", "id")).collect()[0].sk == known
    assert rows.filter(surrogate_key("region", sf.col("id")) == known).count() == 1
    assert rows.groupBy(surrogate_key("region", "id")).count().collect()[0][0] == known
    assert rows.select(sf.upper(surrogate_key("region", "id"))).collect()[0][0] == known.upper()


def test_only_the_form_of_the_columns_type_is_left_after_optimisation(session: SparkSession) -> None:
    frame: Any = session.range(3).select(surrogate_key("id"))
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert not re.search("to_json|raise_error|regexp_replace|typeof|format_string|if ", plan), plan


def test_the_page_about_keys_shows_what_spark_gives(session: SparkSession) -> None:
    page = (Path(__file__).parents[3] / "docs/keys.md").read_text()
    (example,) = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "withColumn" in block]
    orders = session.sql("SELECT 'DE' AS region, 1001 AS order_id, CAST(NULL AS STRING) AS voucher, 12.50BD AS amount")
    names: dict[str, Any] = {"orders": orders, "spark": session}
    exec(example, names)
    (key,) = re.findall(r"surrogate_key\(\"DE\", 1001, None\)\n'([0-9a-f]{32})'", page)
    assert names["keyed"].collect()[0].order_sk == names["queried"].collect()[0].order_sk == key
    assert names["keyed"].collect()[0].content == keys.stable_row_hash({"amount": Decimal("12.5"), "voucher": None})


def _rows() -> list[tuple[Any, ...]]:
    """Every value of every type once, in rows as wide as the table; shorter columns end in NULLs."""
    length = max(len(values) for values in TABLE.values()) + 1
    padded = [[*values, *[None] * (length - len(values))] for values in TABLE.values()]
    return list(zip(*padded, strict=True))


def _table(session: SparkSession) -> DataFrame:
    columns = [StructField("row", _parse_datatype_string("int"))]
    columns += [StructField(re.sub(r"\W", "_", kind), _parse_datatype_string(kind)) for kind in TABLE]
    rows = [(number, *map(_plain, row)) for number, row in enumerate(_rows())]
    return session.createDataFrame(rows, StructType(columns))


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, WallTime) else value


@contextmanager
def _set(session: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    before = {key: session.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            session.conf.unset(key) if earlier is None else session.conf.set(key, earlier)
