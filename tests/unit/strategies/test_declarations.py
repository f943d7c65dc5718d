"""What the strategies imply is checked where a task is declared: nothing has run, nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from twice import (
    Daily,
    Policy,
    Since,
    Whole,
    append_once,
    audit,
    days,
    hours,
    insert_new,
    merge,
    read,
    replace,
    sql_task,
    task,
)
from twice.core.ports import Column, Shape
from twice.core.scope import slice_column_of
from twice.core.task import Task
from twice.core.write import AppendRows, ReplaceRows, UpsertRows
from twice.errors import DeclarationError
from twice.runtime.result.compute import check_columns

DAILY = Daily("day", start="2026-01-01")
SINCE = Since("updated_at", initial="2026-01-01T00:00:00Z")


def declare(write: Any, scope: Any = DAILY, **options: Any) -> Task:
    by = scope.cursor if isinstance(scope, Since) else getattr(scope, "column", None)
    inputs = options.pop("inputs", {"rows": read("shop.rows", by=by)})
    return task("shop.t", name="job", scope=scope, write=write, inputs=inputs, **options)(lambda rows: rows)


@pytest.mark.parametrize("strategy", [merge, insert_new])
def test_a_keyed_strategy_needs_a_key(strategy: Any) -> None:
    for nothing in ("", " ", [], ["id", ""], ["id", 3]):
        with pytest.raises(DeclarationError, match="this is not a valid key"):
            strategy(nothing)
    with pytest.raises(DeclarationError, match="names a column of the key twice"):
        strategy(["id", "ID"])


def test_one_column_or_several_make_a_key() -> None:
    assert merge("id", order="any").key == ("id",)
    assert insert_new(["region", "id"]).key == ("region", "id")


def test_newest_by_is_a_column_outside_the_key() -> None:
    with pytest.raises(DeclarationError, match="newest_by='': the column name is empty"):
        merge("id", newest_by="")
    with pytest.raises(DeclarationError, match="newest_by='ID' is part of the key"):
        merge("id", newest_by="ID")
    with pytest.raises(DeclarationError, match="contradict each other"):
        merge("id", newest_by="at", order="any")


def test_an_unknown_option_is_refused_naming_what_is_known() -> None:
    with pytest.raises(DeclarationError, match="order='oldest' is not known"):
        merge("id", order="oldest")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="null_keys='skip' is not known"):
        merge("id", null_keys="skip")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="rerun='often' is not known. Known: when_changed, never, always"):
        Policy(rerun="often")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="empty='maybe' is not known. Known: allow, refuse"):
        Policy(empty="maybe")  # type: ignore[arg-type]


def test_what_the_guard_lets_pass_is_a_list_of_names() -> None:
    with pytest.raises(DeclarationError, match=r'Write allow=\("rand",\)'):
        Policy(allow="rand")  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", [DAILY, SINCE])
def test_a_merge_over_time_needs_to_know_which_row_is_newer(scope: Any) -> None:
    with pytest.raises(DeclarationError, match="job: merge on a time scope needs newest_by"):
        declare(merge("id"), scope)
    declare(merge("id", newest_by="updated_at"), scope)
    declare(merge("id", order="any"), scope)


def test_a_merge_of_the_whole_table_has_no_older_slice_to_undo_it() -> None:
    declare(merge("id"), Whole())


def test_deleting_what_is_missing_needs_a_slice_to_look_in() -> None:
    with pytest.raises(DeclarationError, match=r"job: delete_missing has no meaning on Since\(…\)"):
        declare(merge("id", newest_by="updated_at", delete_missing=True), SINCE)
    sliced = declare(merge("id", newest_by="at", delete_missing=True), DAILY)
    assert sliced.write.layout(DAILY).slice_column == slice_column_of(DAILY)
    assert declare(merge("id", delete_missing=True), Whole()).write.layout(Whole()).slice_column is None


def test_a_merge_that_deletes_nothing_leaves_the_tables_partitions_alone() -> None:
    layout = merge("id", newest_by="at").layout(DAILY)
    assert (layout.slice_column, layout.key, layout.any_partitions) == (None, ("id",), True)


def test_replace_has_no_slice_on_a_mark() -> None:
    with pytest.raises(DeclarationError, match=r"job: replace\(\) has nothing to replace on Since"):
        declare(replace(), SINCE)


def test_what_is_appended_is_never_done_again() -> None:
    with pytest.raises(DeclarationError, match=r'append_once\(\) knows no rerun="always"'):
        declare(append_once(), policy=Policy(rerun="always"))
    with pytest.raises(DeclarationError, match=r"lookback=2 does earlier slices again, and what append_once\(\)"):
        declare(append_once(), Daily("day", start="2026-01-01", lookback=2))
    with pytest.raises(DeclarationError, match="not_shrunk.* writes it only once"):
        declare(append_once(), audits=[audit.not_shrunk()])


def test_rows_without_a_key_must_come_from_a_cut_input() -> None:
    with pytest.raises(DeclarationError, match=r"job: no input is cut to the slice, so append_once\(\) would add"):
        declare(append_once(), inputs={"rows": read("shop.rows")})
    declare(append_once(), Whole(), inputs={"rows": read("shop.rows")})
    asked = {"rows": read("shop.rows")}
    task("shop.t", name="job", scope=DAILY, write=append_once(), inputs=asked)(lambda rows, run: rows)


def test_strategies_compile_to_write_verbs_and_know_no_table() -> None:
    assert merge("id", newest_by="at", null_keys="match").compile(()) == UpsertRows(
        (), ("id",), "at", null_keys="match"
    )
    assert insert_new("id").compile(()) == UpsertRows((), ("id",), insert_only=True)
    assert append_once().compile(()) == AppendRows(())
    assert [s.restatable for s in (replace(), merge("id"), insert_new("id"), append_once())] == [
        *(True, True, True),
        False,
    ]


def test_a_strategy_says_without_slices_what_its_verb_will_be() -> None:
    kinds = {"replace": ReplaceRows, "upsert": UpsertRows, "append": AppendRows}
    for strategy in (replace(), merge(["id", "line"], newest_by="at"), merge("id"), insert_new("id"), append_once()):
        verb = strategy.compile(())
        assert isinstance(verb, kinds[strategy.kind])
        assert strategy.key == getattr(verb, "key", ())
        assert strategy.newest_by == getattr(verb, "newest_by", None)


@pytest.mark.parametrize("write", [replace, "append", None, merge])
def test_a_strategy_that_was_not_called_is_no_strategy(write: Any) -> None:
    with pytest.raises(DeclarationError, match=r"job: write=.* is not a strategy. Write write=replace\(\)"):
        declare(write)


@pytest.mark.parametrize("scope", [Daily, Whole, "daily", None])
def test_a_scope_that_was_not_made_is_no_scope(scope: Any) -> None:
    with pytest.raises(DeclarationError, match="job: scope=.* is not a scope"):
        declare(replace(), scope, inputs={"rows": read("shop.rows")})


def test_since_needs_exactly_one_input_cut_by_its_cursor() -> None:
    wanted = "needs exactly one input that is cut by updated_at, and {} is cut"
    for inputs, cut in (
        ({"rows": read("shop.rows")}, "no input"),
        ({"rows": read("shop.rows", by="created_at")}, "rows"),
    ):
        with pytest.raises(DeclarationError, match=wanted.format(cut)):
            declare(insert_new("id"), SINCE, inputs=inputs)
    both = {"rows": read("shop.rows", by="updated_at"), "more": read("shop.more", by="updated_at")}
    with pytest.raises(DeclarationError, match=wanted.format("rows, more")):
        task("shop.t", name="job", scope=SINCE, write=insert_new("id"), inputs=both)(lambda rows, more: rows)


def test_the_mark_alone_says_where_reading_begins() -> None:
    with pytest.raises(DeclarationError, match="before= has no meaning on Since"):
        declare(insert_new("id"), SINCE, inputs={"rows": read("shop.rows", by="updated_at", before=days(1))})
    for rerun in ("never", "always"):
        with pytest.raises(DeclarationError, match=f'rerun="{rerun}" has no meaning on Since'):
            declare(insert_new("id"), SINCE, policy=Policy(rerun=rerun))
    with pytest.raises(DeclarationError, match="not_shrunk.*every run of Since.* reads other rows"):
        declare(insert_new("id"), SINCE, audits=[audit.not_shrunk()])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cursor": " "}, "needs the name of its cursor column"),
        ({"initial": "yesterday"}, "is neither an instant, nor a date, nor a number"),
        ({"initial": True}, "is neither an instant, nor a date, nor a number"),
        ({"initial": "2026-01-01T00:00:00"}, "has no time zone"),
        ({"lag": 5}, "is a number, and the cursor is a time"),
        ({"initial": 0, "lag": hours(1)}, "is a time, and the cursor counts numbers"),
        ({"lag": -hours(1)}, "is negative"),
        ({"initial": 0, "lag": -1}, "is negative"),
    ],
)
def test_a_cursor_a_start_and_a_lag_must_fit_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        Since(**{"cursor": "updated_at", "initial": "2026-01-01T00:00:00Z", **options})


def test_a_query_asks_for_the_ends_of_a_slice_only_where_there_are_any(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT * FROM shop.rows WHERE updated_at >= :start")
    inputs = {"rows": read("shop.rows", by="updated_at")}
    with pytest.raises(DeclarationError, match=r"q: the query asks for :start, and Since\(…\) has no slice"):
        sql_task(tmp_path / "q.sql", "shop.t", scope=SINCE, write=insert_new("id"), inputs=inputs)
    with pytest.raises(DeclarationError, match=r"q: the query asks for :start, and Whole\(…\) has no slice"):
        sql_task(tmp_path / "q.sql", "shop.t", scope=Whole(), write=replace(), inputs={"rows": read("shop.rows")})
    sql_task(tmp_path / "q.sql", "shop.t", scope=DAILY, write=append_once(), inputs={"rows": read("shop.rows")})


def test_a_query_that_names_no_end_appends_the_same_rows_every_day(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT * FROM shop.rows")
    with pytest.raises(DeclarationError, match="would add the same rows for every slice"):
        sql_task(tmp_path / "q.sql", "shop.t", scope=DAILY, write=append_once(), inputs={"rows": read("shop.rows")})
    inputs = {"rows": read("shop.rows", by="updated_at")}
    sql_task(tmp_path / "q.sql", "shop.t", scope=SINCE, write=insert_new("id"), inputs=inputs)


SHAPE = Shape(
    (
        Column("id", "bigint"),
        Column("Region", "string"),
        Column("tags", "map<string,string>"),
        Column("at", "timestamp"),
    )
)


def test_a_key_and_newest_by_must_be_in_the_result() -> None:
    with pytest.raises(DeclarationError, match=r"merge\(key='order_id'\) names a column .* The result has: id, Region"):
        check_columns(declare(merge("order_id", newest_by="at")), SHAPE)
    with pytest.raises(DeclarationError, match=r"merge\(newest_by='changed'\) names a column that the result does not"):
        check_columns(declare(merge("id", newest_by="changed")), SHAPE)
    with pytest.raises(DeclarationError, match=r"insert_new\(key='order_id'\) names a column"):
        check_columns(declare(insert_new(["id", "order_id"])), SHAPE)
    check_columns(declare(merge(["ID", "region"], newest_by="AT")), SHAPE)


@pytest.mark.parametrize("type_", ["map<string,string>", "array<int>", "struct<a:int>", "variant", "interval day"])
def test_a_key_and_newest_by_must_have_plain_types(type_: str) -> None:
    shape = Shape((*SHAPE.columns, Column("odd", type_)))
    with pytest.raises(DeclarationError, match=f"the key odd is of type {type_}, whose values cannot"):
        check_columns(declare(insert_new("odd")), shape)
    with pytest.raises(DeclarationError, match=f"newest_by odd is of type {type_}, whose values cannot"):
        check_columns(declare(merge("id", newest_by="odd")), shape)


def test_what_an_audit_names_must_be_in_the_result() -> None:
    for named in (audit.unique("id", "line"), audit.not_null("line"), audit.accepted("line", [1])):
        with pytest.raises(
            DeclarationError, match=r"audit\..*line.* names a column that the result does not have: line"
        ):
            check_columns(declare(replace(), audits=[named]), SHAPE)
    check_columns(declare(append_once(), audits=[audit.unique("ID", "region"), audit.rows(at_least=1)]), SHAPE)
