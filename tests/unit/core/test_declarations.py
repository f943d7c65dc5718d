"""Every wrong declaration is reported where it is written, before anything runs."""

from __future__ import annotations

from dataclasses import replace as fields
from pathlib import Path
from typing import Any

import pytest

from twice import Daily, Whole, audit, days, read, replace, sql_task, task
from twice.core.audit import Audit, HeldRows, judge
from twice.core.project.project import assemble
from twice.core.table.token import CommitNote, Intention
from twice.core.task import TableName, Task
from twice.errors import DeclarationError, UsageError

DAILY = Daily("order_date", start="2026-01-01")


def make(target: str, name: str = "job", **inputs: Any) -> Task:
    def function(**frames: Any) -> Any:
        return frames

    return task(target, scope=DAILY, write=replace(), inputs=inputs, name=name)(function)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "shop.",
        ".orders",
        "shop..orders",
        "../etc",
        "shop.or'ders",
        'shop."orders"',
        "shop.orders\x00",
        "shöp.orders",
        "a.b.c.d",
        "shop/orders",
        "shop orders",
        "x" * 200,
        "s3://bucket/key",
        "`shop`.orders",
    ],
)
def test_a_table_name_with_anything_but_letters_digits_and_underscores_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="is not a table name"):
        TableName.parse(name)


@pytest.mark.parametrize("name", ["revenue.daily", "revenue'daily", "..", "umsätze", "a\x00b", "a b", "a/b", "1st"])
def test_a_task_name_with_anything_but_letters_digits_and_underscores_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="is not a task name"):
        make("shop.t", name=name)


def test_a_format_may_stand_before_a_table_name() -> None:
    assert TableName.parse("delta:shop.orders") == TableName("shop.orders", "delta")
    assert str(TableName.parse("shop.orders")) == "shop.orders"


def test_two_tasks_on_one_target_are_refused_naming_both() -> None:
    with pytest.raises(DeclarationError, match="one and two both write shop.Revenue"):
        assemble("shop", [make("shop.revenue", "one"), make("shop.Revenue", "two")])


def test_two_tasks_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError, match="two tasks are named job"):
        assemble("shop", [make("shop.a"), make("shop.b")])


def test_a_cycle_of_inputs_is_refused_showing_it() -> None:
    one = make("shop.a", "one", b=read("shop.b"))
    two = make("shop.b", "two", a=read("shop.a"))
    with pytest.raises(DeclarationError, match="the inputs make a cycle: .*one.*two"):
        assemble("shop", [one, two])


def test_a_task_may_read_its_own_target() -> None:
    project = assemble("shop", [make("shop.a", "one", before=read("shop.a"))])
    assert [t.name for t in project.in_order()] == ["one"]


def test_tasks_are_ordered_by_their_declared_inputs() -> None:
    tasks = [make("shop.c", "c", b=read("shop.b")), make("shop.a", "a"), make("shop.b", "b", a=read("shop.a"))]
    assert [t.name for t in assemble("shop", tasks).in_order()] == ["a", "b", "c"]


def test_a_task_asked_for_by_its_old_name_is_refused_with_its_new_one() -> None:
    renamed = fields(make("shop.a", "payments_current"), formerly=("payments",))
    project = assemble("shop", [renamed, make("shop.b", "ingest_payments")])
    with pytest.raises(UsageError, match="no task 'payments' any more. It is payments_current now, as formerly= says"):
        project.task("payments")


def test_an_unknown_task_is_refused_with_the_nearest_name() -> None:
    project = assemble("shop", [make("shop.a", "revenue_daily")])
    with pytest.raises(UsageError, match="Did you mean revenue_daily"):
        project.task("revenue_dayly")
    with pytest.raises(UsageError, match="Known tasks: revenue_daily"):
        project.task("x")


def test_parameters_and_inputs_must_match() -> None:
    with pytest.raises(DeclarationError, match="takes orders, which inputs= does not declare"):
        task("shop.t", scope=DAILY, write=replace(), name="job")(lambda orders: orders)
    with pytest.raises(DeclarationError, match="declares orders, which the function"):

        @task("shop.t", scope=DAILY, write=replace(), inputs={"orders": read("shop.orders")})
        def job() -> None: ...


def test_an_input_must_be_a_read() -> None:
    with pytest.raises(DeclarationError, match="is a str, not a read"):
        make("shop.t", orders="shop.orders")


def test_a_whole_table_task_has_no_slice_to_cut_an_input_to() -> None:
    with pytest.raises(DeclarationError, match="has no slice to cut it to"):

        @task("shop.t", scope=Whole(), write=replace(), inputs={"o": read("shop.o", by="d")})
        def job(o: Any) -> Any: ...


def test_before_needs_by_and_is_not_negative() -> None:
    with pytest.raises(DeclarationError, match="before= needs by="):
        read("shop.o", before=days(7))
    with pytest.raises(DeclarationError, match="is negative"):
        read("shop.o", by="d", before=days(-7))
    with pytest.raises(DeclarationError, match="the column name is empty"):
        read("shop.o", by="")


def test_a_declared_task_is_still_a_plain_function() -> None:
    @task("shop.t", scope=DAILY, write=replace(), inputs={"orders": read("shop.orders")})
    def job(orders: list[int]) -> list[int]:
        return sorted(orders)

    assert job(orders=[2, 1]) == [1, 2]
    assert job.source == Path(__file__)


def test_one_audit_is_declared_once() -> None:
    with pytest.raises(DeclarationError, match="not_null\\(a\\) is declared twice"):
        task("shop.t", scope=DAILY, write=replace(), audits=[audit.not_null("a"), audit.not_null("a")], name="job")(
            lambda: None
        )


def test_audits_refuse_options_that_check_nothing() -> None:
    with pytest.raises(DeclarationError, match="needs at_least= or at_most="):
        audit.rows()
    with pytest.raises(DeclarationError, match="needs the names of its columns"):
        audit.unique()
    with pytest.raises(DeclarationError, match="is not a valid share"):
        audit.not_shrunk(to=0)


@pytest.mark.parametrize(
    ("declared", "rows", "counts", "before", "passed"),
    [
        (audit.rows(at_least=1), 1, {}, None, True),
        (audit.rows(at_least=1), 0, {}, None, False),
        (audit.rows(at_most=5), 6, {}, None, False),
        (audit.not_null("a", "b"), 9, {"not_null(a, b):a": 0, "not_null(a, b):b": 0}, None, True),
        (audit.not_null("a", "b"), 9, {"not_null(a, b):a": 0, "not_null(a, b):b": 2}, None, False),
        (audit.accepted("a", ["x"]), 9, {"accepted(a)": 1}, None, False),
        (audit.between("a", 1, 2), 9, {"between(a, 1, 2)": 0}, None, True),
        (audit.expression("a > b"), 9, {"expression(a > b)": 3}, None, False),
        (audit.not_shrunk(to=0.5), 50, {}, 100, True),
        (audit.not_shrunk(to=0.5), 49, {}, 100, False),
        (audit.not_shrunk(to=0.5), 0, {}, None, True),
    ],
)
def test_counts_decide_an_audit(
    declared: Audit, rows: int, counts: dict[str, int], before: int | None, passed: bool
) -> None:
    held = HeldRows(before is not None, before)
    judged = judge(declared, rows, counts, held)
    assert judged is not None
    assert judged.passed is passed
    assert judged.stops is not passed
    warned = judge(declared.warn(), rows, counts, held)
    assert warned is not None
    assert not warned.stops


def test_an_audit_of_the_staged_rows_is_not_decided_by_counts() -> None:
    assert judge(audit.unique("a"), 1, {}, HeldRows(False, None)) is None
    assert judge(audit.custom(lambda _: True), 1, {}, HeldRows(False, None)) is None


def test_a_note_round_trips_through_a_commit_and_foreign_text_is_no_note() -> None:
    note = CommitNote("abc", "run", {"twice/p/t/2026-06-09": 3}, {"twice/p/t/2026-06-09": Intention("c", None)})
    assert CommitNote.from_json(note.to_json()) == note
    for text in (None, "", "hello", "{}", '{"twice": 1}', '{"twice": {"slices": []}}', "[1]"):
        assert CommitNote.from_json(text) is None


def test_unversioned_inputs_are_never_the_same() -> None:
    assert Intention("c", "i").same_as(Intention("c", "i"))
    assert not Intention("c", None).same_as(Intention("c", None))
    assert Intention("c", "i").hash != Intention("c", "j").hash


SQL = "SELECT order_date, sum(amount) AS revenue FROM shop.orders WHERE order_date >= :start GROUP BY order_date\n"


def test_a_sql_task_reads_its_file_beside_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "revenue.sql").write_text(SQL)
    declared = sql_task(
        tmp_path / "revenue.sql", "shop.revenue", scope=DAILY, write=replace(), inputs={"o": read("shop.orders")}
    )
    assert declared.name == "revenue"
    assert declared.sql == SQL


def test_a_sql_task_must_declare_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "revenue.sql").write_text(SQL)
    with pytest.raises(DeclarationError, match="shop.orders"):
        sql_task(tmp_path / "revenue.sql", "shop.r", scope=DAILY, write=replace(), inputs={"o": read("shop.other")})
    with pytest.raises(DeclarationError, match="there is no file"):
        sql_task("nowhere.sql", "shop.r", scope=DAILY, write=replace(), inputs={})


def test_a_query_about_one_day_cannot_be_batched(tmp_path: Path) -> None:
    query = tmp_path / "day.sql"
    query.write_text("SELECT * FROM shop.orders WHERE order_date = :ds")
    with pytest.raises(DeclarationError, match="it takes :ds, the label of one"):
        sql_task(
            query,
            "shop.days",
            scope=Daily("order_date", start="2026-01-01", batch=True),
            write=replace(),
            inputs={"orders": read("shop.orders", by="order_date")},
        )


def test_two_tasks_that_had_one_name_once_are_refused() -> None:
    """The ledger could not say whose a record of that name is."""
    scope = Daily("day", start="2026-01-01")
    one = task("shop.a", scope=scope, write=replace(), name="x", formerly=("a", "b"))(lambda: None)
    other = task("shop.b", scope=scope, write=replace(), name="y", formerly=("c", "b"))(lambda: None)
    with pytest.raises(DeclarationError, match="x and y both were b once"):
        assemble("p", [one, other])


def test_a_new_task_may_not_take_the_first_name_of_a_renamed_one() -> None:
    """Tokens go by the first name: both would take the other's slices for their own."""
    scope = Daily("day", start="2026-01-01")
    renamed = task("shop.a", scope=scope, write=replace(), name="sales", formerly=("revenue",))(lambda: None)
    newcomer = task("shop.b", scope=scope, write=replace(), name="revenue")(lambda: None)
    with pytest.raises(DeclarationError, match="both were revenue first"):
        assemble("p", [renamed, newcomer])
