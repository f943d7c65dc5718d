"""The text of a SQL task: found, checked and bound by position."""

from __future__ import annotations

import pytest

from twice.engine.code.sql import bind, normalised, parameters_in, tables_in
from twice.errors import DeclarationError


def message(text: str, **views: str) -> str:
    with pytest.raises(DeclarationError) as caught:
        bind(text, views or {"shop.orders": "v"})
    assert caught.value.fix
    return caught.value.what


def test_tables_are_found_in_joins_subqueries_and_set_operations() -> None:
    text = """
        SELECT o.id, (SELECT max(rate) FROM shop.rates) FROM shop.orders o JOIN `shop`.`lines` USING (id)
        WHERE EXISTS (SELECT 1 FROM cat.shop.customers c WHERE c.id = o.id)
        UNION ALL SELECT id, 1 FROM Shop.Orders, range(3) LATERAL VIEW explode(array(1)) e AS x
    """
    assert sorted(tables_in(text)) == ["cat.shop.customers", "shop.lines", "shop.orders", "shop.rates"]


def test_the_names_of_ctes_are_not_tables() -> None:
    assert tables_in("WITH a AS (SELECT * FROM shop.orders), b AS (SELECT * FROM a) SELECT * FROM b, a") == (
        "shop.orders",
    )


def test_a_cte_does_not_see_itself_so_its_own_name_inside_is_the_table() -> None:
    assert tables_in("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders") == ("orders",)
    assert bind("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders", {"orders": "v"}) == (
        "WITH orders AS (SELECT * FROM `v` AS `orders`) SELECT * FROM orders"
    )


def test_a_recursive_cte_sees_itself() -> None:
    text = "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT * FROM n, shop.orders"
    assert tables_in(text) == ("shop.orders",)


def test_a_cte_of_a_subquery_is_not_seen_outside_it() -> None:
    assert tables_in("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) JOIN t ON true") == ("t",)


def test_parameters_are_found_but_not_in_strings_and_casts() -> None:
    assert parameters_in("SELECT ':no', a::int FROM t WHERE d >= :start AND d < :end AND s = :ds") == (
        "ds",
        "end",
        "start",
    )


def test_binding_changes_nothing_but_the_names_of_tables() -> None:
    text = "SELECT  o.A,\n  'shop.orders' AS s -- from shop.orders\nFROM   shop.orders  o\nWHERE o.d >= :start\n"
    assert bind(text, {"shop.orders": "twice_orders"}) == text.replace("FROM   shop.orders", "FROM   `twice_orders`")


def test_a_table_keeps_its_name_for_the_columns_that_use_it() -> None:
    assert bind("SELECT orders.a FROM shop.orders WHERE shop.orders.b > 1", {"shop.orders": "v"}) == (
        "SELECT orders.a FROM `v` AS `orders` WHERE orders.b > 1"
    )


def test_names_match_whatever_their_case() -> None:
    assert bind("SELECT * FROM SHOP.Orders o", {"shop.orders": "v"}) == "SELECT * FROM `v` o"


def test_a_field_of_a_struct_is_not_taken_for_a_table() -> None:
    assert bind("SELECT a.orders.x FROM shop.orders AS a", {"shop.orders": "v"}) == ("SELECT a.orders.x FROM `v` AS a")


def test_a_sampled_table_gets_no_second_alias() -> None:
    assert bind("SELECT * FROM shop.orders TABLESAMPLE (5 ROWS) x", {"shop.orders": "v"}) == (
        "SELECT * FROM `v` TABLESAMPLE (5 ROWS) x"
    )


def test_an_undeclared_table_is_reported_with_its_line() -> None:
    assert message("SELECT *\nFROM shop.orders\nJOIN shop.rates") == "line 3: the table shop.rates is not declared"


def test_a_path_is_a_table_that_must_be_declared() -> None:
    assert "parquet./data/x is not declared" in message("SELECT * FROM parquet.`/data/x`")


def test_a_declared_input_that_is_not_read_is_reported() -> None:
    assert message("SELECT 1") == "the input shop.orders is declared, but the SQL does not read it"


def test_an_unknown_parameter_is_reported_with_its_line() -> None:
    assert message("SELECT *\nFROM shop.orders\nWHERE d = :today") == "line 3: there is no parameter :today"


def test_a_parameter_without_a_name_is_refused() -> None:
    assert "without a name" in message("SELECT * FROM shop.orders WHERE d = ?")


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("INSERT INTO a SELECT * FROM shop.orders", "INSERT"),
        ("WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x", "INSERT"),
        ("\nDROP TABLE shop.orders", "DROP"),
        ("SHOW TABLES", "SHOW"),
        ("SET x = 1", "SET"),
    ],
)
def test_a_statement_that_is_no_select_is_refused(text: str, verb: str, caplog: pytest.LogCaptureFixture) -> None:
    what = message(text)
    assert verb in what and what.startswith("line ")
    assert not caplog.records, "sqlglot warns of a statement it does not know; the error says it already"


def test_two_statements_are_refused_and_a_last_semicolon_is_not() -> None:
    assert message("SELECT * FROM shop.orders; SELECT 2") == "the SQL holds 2 statements"
    assert message("-- nothing") == "the SQL holds no statement"
    assert tables_in("SELECT * FROM shop.orders;\n") == ("shop.orders",)


def test_sql_that_cannot_be_read_is_reported_with_its_line() -> None:
    assert message("SELECT a\nFROM shop.orders\nWHERE ((a = 1)").startswith("the SQL cannot be read: line 3")
    assert "cannot be read" in message("SELECT 'open")


def test_a_version_of_its_own_is_refused_because_the_run_pins_every_input() -> None:
    assert "at a version of its own" in message("SELECT * FROM shop.orders VERSION AS OF 3")


def test_a_name_that_is_computed_is_refused() -> None:
    assert "hides which table" in message("SELECT * FROM identifier(:start)")


def test_the_normal_form_keeps_strings_and_drops_comments_and_hints() -> None:
    one = normalised("SELECT /*+ BROADCAST(b) */ 'a  b' -- note\n  FROM t ;")
    assert one == normalised("SELECT 'a  b'\nFROM t") == "SELECT 'a  b' FROM t"
    assert one != normalised("SELECT 'a b' FROM t")
