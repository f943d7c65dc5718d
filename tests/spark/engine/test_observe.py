"""Counts and fingerprints taken while rows are written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from twice.core import audit
from twice.core.audit import measures_of
from twice.core.ports import Measured
from twice.core.scope import Daily, Hourly, Monthly
from twice.core.slice import WHOLE, Slice
from twice.engine.frames.observe import count, observe
from twice.errors import DeclarationError

DAYS = Daily("day", start="2020-01-01")
# Another value at each evaluation; Spark's own uuid() keeps its seed in the plan.
ONCE = "reflect('java.util.UUID', 'randomUUID') AS once"


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., dict[str, Measured]]:
    """Write a frame and give what was seen of it in passing."""

    def write(frame: DataFrame, slices: Sequence[Slice] = (WHOLE,), audits: Sequence[Any] = ()) -> dict[str, Measured]:
        observed = observe(frame, slices, measures_of(audits))
        folder = tmp_path / "table"
        shutil.rmtree(folder, ignore_errors=True)
        observed.frame.write.format("parquet").save(str(folder))
        return dict(observed.read())

    return write


@pytest.fixture
def fingerprint(written: Callable[..., dict[str, Measured]]) -> Callable[[DataFrame], str]:
    return lambda frame: written(frame)["all"].fingerprint


def test_the_frame_is_written_as_it_was(session: SparkSession, tmp_path: Path) -> None:
    frame = session.sql("SELECT 1 AS a, 'x' AS __twice_a")
    observed = observe(frame, (WHOLE,), ())
    observed.frame.write.format("delta").save(str(tmp_path / "t"))
    assert session.read.format("delta").load(str(tmp_path / "t")).schema.simpleString() == frame.schema.simpleString()
    assert observed.read()["all"].rows == 1


def test_order_partitions_and_column_order_do_not_change_the_fingerprint(
    session: SparkSession, fingerprint: Callable[[DataFrame], str]
) -> None:
    frame = session.range(1000).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS s")
    same = frame.orderBy("s").repartition(3).select("s", "id", "k")
    assert fingerprint(frame) == fingerprint(same)


VARIANTS = [
    ("a row more", "SELECT 1 AS a UNION ALL SELECT 2", "SELECT 1 AS a"),
    ("a doubled row", "SELECT 1 AS a UNION ALL SELECT 1", "SELECT 1 AS a"),
    ("two doubled rows", "SELECT * FROM VALUES (1), (1) AS t(a)", "SELECT * FROM VALUES (2), (2) AS t(a)"),
    ("NULL and value change places", "SELECT cast(NULL AS int) AS a, 1 AS b", "SELECT 1 AS a, cast(NULL AS int) AS b"),
    ("NULL and empty text", "SELECT cast(NULL AS string) AS a", "SELECT '' AS a"),
    ("values change columns", "SELECT 1 AS a, 2 AS b", "SELECT 2 AS a, 1 AS b"),
    ("another type", "SELECT 1 AS a", "SELECT 1L AS a"),
    ("another scale", "SELECT cast(1 AS decimal(9,1)) AS a", "SELECT cast(1 AS decimal(9,2)) AS a"),
    ("another name", "SELECT 1 AS a", "SELECT 1 AS b"),
    ("text moved between columns", "SELECT 'ab' AS a, 'c' AS b", "SELECT 'a' AS a, 'bc' AS b"),
    ("NULL moved in an array", "SELECT array(NULL, 1) AS a", "SELECT array(1, NULL) AS a"),
    ("empty and NULL array", "SELECT array(cast(NULL AS int)) AS a", "SELECT cast(array() AS array<int>) AS a"),
    ("border of arrays", "SELECT array(1) AS a, array(2, 3) AS b", "SELECT array(1, 2) AS a, array(3) AS b"),
    ("border inside arrays", "SELECT array(array(1), array(2, 3)) AS a", "SELECT array(array(1, 2), array(3)) AS a"),
    (
        "NULL moved in a struct",
        "SELECT named_struct('x', cast(NULL AS int), 'y', 1) AS a",
        "SELECT named_struct('x', 1, 'y', cast(NULL AS int)) AS a",
    ),
    ("map values", "SELECT map('x', 1, 'y', 2) AS a", "SELECT map('x', 2, 'y', 1) AS a"),
    ("case in a collation", "SELECT 'a' COLLATE UTF8_LCASE AS a", "SELECT 'A' COLLATE UTF8_LCASE AS a"),
    ("variant types", """SELECT parse_json('1') AS a""", """SELECT parse_json('"1"') AS a"""),
    (
        "an instant",
        "SELECT TIMESTAMP '2026-01-01 00:00:00Z' AS a",
        "SELECT TIMESTAMP '2026-01-01 00:00:00.000001Z' AS a",
    ),
    ("binary", "SELECT X'00' AS a", "SELECT X'0000' AS a"),
    ("a wide decimal", "SELECT 1e30BD AS a", "SELECT 1.1e30BD AS a"),
]


@pytest.mark.parametrize(("one", "other"), [v[1:] for v in VARIANTS], ids=[v[0] for v in VARIANTS])
def test_what_differs_has_another_fingerprint(
    session: SparkSession, fingerprint: Callable[[DataFrame], str], one: str, other: str
) -> None:
    first, second = session.sql(one), session.sql(other)
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(session.sql(one)) == fingerprint(session.sql(one))


SAME = [
    ("negative zero", "SELECT 0.0D AS a", "SELECT -0.0D AS a"),
    ("NaN", "SELECT double('NaN') AS a", "SELECT double('Infinity') - double('Infinity') AS a"),
    ("order in a map", "SELECT map('x', 1, 'y', 2) AS a", "SELECT map('y', 2, 'x', 1) AS a"),
    ("nullable or not", "SELECT 1 AS a, 2 AS b", "SELECT * FROM (SELECT nullif(1, 5) AS a, nullif(2, 5) AS b)"),
    ("case of names", "SELECT 1 AS Amount", "SELECT 1 AS amount"),
    (
        "order in a variant",
        """SELECT parse_json('{"a":1,"b":2}') AS a""",
        """SELECT parse_json('{"b":2,"a":1}') AS a""",
    ),
]


@pytest.mark.parametrize(("one", "other"), [v[1:] for v in SAME], ids=[v[0] for v in SAME])
def test_what_is_the_same_has_the_same_fingerprint(
    session: SparkSession, fingerprint: Callable[[DataFrame], str], one: str, other: str
) -> None:
    assert fingerprint(session.sql(one)) == fingerprint(session.sql(other))


def test_every_other_type_can_be_fingerprinted(
    session: SparkSession, tmp_path: Path, fingerprint: Callable[[DataFrame], str]
) -> None:
    frame = session.sql(
        "SELECT INTERVAL '1' DAY AS d, INTERVAL '1' MONTH AS m, TIMESTAMP_NTZ '2026-01-01 00:00:00' AS n,"
        " cast(1 AS tinyint) AS t, 1.5F AS f, true AS b, DATE '2026-01-01' AS day,"
        " map(1, array(map('k', NULL))) AS deep"
    )
    assert len(fingerprint(frame)) == 32


def test_equal_rows_are_all_counted(session: SparkSession, written: Callable[..., dict[str, Measured]]) -> None:
    seen = written(session.range(300_000).selectExpr("'same' AS a"))["all"]
    assert seen.rows == 300_000


def test_an_empty_result_is_counted_as_empty(
    session: SparkSession, written: Callable[..., dict[str, Measured]], tmp_path: Path
) -> None:
    empty = session.range(10).where("id < 0").groupBy("id").count()
    seen = written(empty, (WHOLE,), [audit.not_null("id")])["all"]
    assert (seen.rows, dict(seen.counts)) == (0, {"not_null(id):id": 0})
    observed = observe(session.range(10).where("false").repartition(3), (WHOLE,), ())
    observed.frame.repartition("id").sort("id").write.format("delta").save(str(tmp_path / "empty"))
    assert observed.read()["all"].rows == 0


def test_each_slice_is_counted_alone(session: SparkSession, written: Callable[..., dict[str, Measured]]) -> None:
    frame = session.range(100).selectExpr("id", "date_add(DATE '2026-01-01', cast(id % 5 AS int)) AS day")
    days = [DAYS.slice_of(f"2026-01-0{d}") for d in (1, 2, 3, 5, 7)]
    seen = written(frame, days, [audit.between("id", 0, 49)])
    assert [seen[d.label].rows for d in days] == [20, 20, 20, 20, 0]
    assert sum(seen["2026-01-01"].counts.values()) == 10
    alone = written(frame.where("day = '2026-01-02'"), [days[1]])
    assert alone["2026-01-02"].fingerprint == seen["2026-01-02"].fingerprint
    assert len({m.fingerprint for m in seen.values()}) == 5


def test_slices_of_hours_and_of_months_over_days_are_counted(
    session: SparkSession, written: Callable[..., dict[str, Measured]]
) -> None:
    hours = list(
        Hourly("at", start="2026-01-01T00").between(
            datetime(2026, 1, 1, 22, tzinfo=timezone.utc), datetime(2026, 1, 2, 3, tzinfo=timezone.utc)
        )
    )
    frame = session.range(600).selectExpr(
        "id", "timestamp_seconds(1767225600 + 60 * id + 22 * 3600) AS at", "date_trunc('HOUR', at) AS at_hour"
    )
    seen = written(frame, hours)
    assert [seen[h.label].rows for h in hours] == [60] * 5
    months = [Monthly("day", start="2020-01", slice_column="day").slice_of(m) for m in ("2026-01", "2026-02")]
    days = session.range(59).selectExpr("date_add(DATE '2026-01-01', cast(id AS int)) AS day")
    seen = written(days, months)
    assert [seen[m.label].rows for m in months] == [31, 28]


def test_a_batch_of_many_slices_is_counted_like_each_alone(
    session: SparkSession, written: Callable[..., dict[str, Measured]]
) -> None:
    frame = session.range(1000).selectExpr("id", "date_add(DATE '2025-01-01', cast(id % 100 AS int)) AS day")
    first = date(2025, 1, 1)
    days = [DAYS.slice_of((first + timedelta(days=n)).isoformat()) for n in range(105)]
    checks = [audit.between("id", 0, 499)]
    seen = written(frame, days, checks)
    assert [m.rows for m in seen.values()] == [10] * 100 + [0] * 5
    assert written(frame.where("day = '2025-01-07'"), [days[6]], checks)["2025-01-07"] == seen["2025-01-07"]
    assert written(frame.where("false"), [days[6]], checks)["2025-01-07"].fingerprint == seen["2025-04-15"].fingerprint


@pytest.mark.parametrize("days", [5, 14], ids=["counted in flight", "counted afterwards"])
def test_rows_of_several_slices_are_evaluated_once_and_written_in_one_file_a_slice(
    session: SparkSession, tmp_path: Path, days: int
) -> None:
    slices = [DAYS.slice_of(f"2026-01-{d:02}") for d in range(1, days + 1)]
    by_day = f"date_add(DATE '2026-01-01', cast(id % {days} AS int)) AS day"
    observed = observe(session.range(0, 100, 1, 8).selectExpr(ONCE, by_day), slices, ())
    folder = tmp_path / "several"
    observed.frame.write.partitionBy("day").parquet(str(folder))
    seen = observed.read()
    assert len(list(folder.rglob("*.parquet"))) == days
    again = observe(session.read.parquet(str(folder)), slices, ())
    again.frame.write.format("noop").mode("overwrite").save()
    assert again.read() == seen


def test_rows_of_no_slice_are_in_no_count(session: SparkSession, written: Callable[..., dict[str, Measured]]) -> None:
    frame = session.sql(
        "SELECT * FROM VALUES (DATE '2026-01-01'), (NULL), (DATE '0001-01-01'), (DATE '9999-12-31') AS t(day)"
    )
    seen = written(frame, [DAYS.slice_of("2026-01-01"), DAYS.slice_of("2026-01-02")])
    assert [m.rows for m in seen.values()] == [1, 0]


def test_measures_count_the_rows_that_break_them(
    session: SparkSession, written: Callable[..., dict[str, Measured]]
) -> None:
    frame = session.sql(
        "SELECT * FROM VALUES (1, 'new', 5.00BD, DATE '2026-01-01'), (NULL, 'old', -1.00BD, NULL),"
        " (3, NULL, NULL, NULL)"
        " AS t(`a.b`, `st``ate`, amount, day)"
    )
    audits = [
        audit.not_null("a.b", "day"),
        audit.accepted("st`ate", ["new", "it's"]),
        audit.between("amount", 0, 10),
        audit.between("day", date(2027, 1, 1), date(2028, 1, 1)),
        audit.expression("amount > 0", name="positive"),
    ]
    counts = written(frame, (WHOLE,), audits)["all"].counts
    assert list(counts.values()) == [1, 2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (audit.not_null("nope"), "There are: a, s."),
        (audit.expression("a +"), "is not Spark SQL"),
        (audit.expression("a + 1"), "gives int, not true or false"),
        (audit.expression("missing > 1"), "does not fit the result"),
        (audit.accepted("s", [1]), "text column with the number 1"),
        (audit.between("a", object(), None), "value of type object"),
    ],
)
def test_an_audit_that_does_not_fit_is_reported_before_anything_is_written(
    session: SparkSession, check: audit.Audit, message: str
) -> None:
    with pytest.raises(DeclarationError, match=".*") as caught:
        observe(session.sql("SELECT 1 AS a, 'x' AS s"), (WHOLE,), measures_of([check]))
    assert message in str(caught.value)


def test_counts_of_a_frame_that_was_never_written_are_an_error_not_a_wait(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.errors import StageMismatch

    monkeypatch.setattr("twice.engine.frames.observe._PATIENCE_S", 0.05)
    observed = observe(session.range(1), (WHOLE,), ())
    with pytest.raises(StageMismatch, match="no counts"):
        observed.read()


def test_the_rows_of_slices_are_counted_where_they_are(session: SparkSession) -> None:
    frame = session.sql("SELECT explode(array(DATE'2026-06-08', DATE'2026-06-09', DATE'2026-06-09', NULL)) AS day")
    days = tuple(DAYS.slice_of(f"2026-06-{day:02}") for day in (7, 8, 9))
    assert count(frame, days) == {"2026-06-07": 0, "2026-06-08": 1, "2026-06-09": 2}
    assert count(frame, days[2:]) == {"2026-06-09": 2}
    month = Monthly("day", start="2026-01", slice_column="day")
    assert count(frame, (month.slice_of("2026-05"), month.slice_of("2026-06"))) == {"2026-05": 0, "2026-06": 3}
    assert count(frame, (WHOLE,)) == {"all": 4}
