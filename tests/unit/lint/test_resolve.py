"""Following names, strings and values through Python source."""

from __future__ import annotations

import ast

import pytest

from twice.lint.collect.clocks.clock_calls import clock_flow
from twice.lint.resolve.chains import unroll
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import LintedModule


def module(code: str) -> LintedModule:
    return LintedModule(ast.parse(code), code)


def last(code: str) -> tuple[LintedModule, ast.expr]:
    made = module(code)
    statement = made.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return made, statement.value


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('"a" + "b"', "ab"),
        ('t = "x"\nf"INSERT INTO {t}"', "INSERT INTO x"),
        ('f"INSERT INTO {table}"', "INSERT INTO {table}"),
        ('"%s/%s" % (root, "x")', "{root}/x"),
        ('"{}/{name}".format(a, name=b)', "{a}/{b}"),
        ('import textwrap\ntextwrap.dedent("x")', "x"),
        ('import os\nos.path.join("a", day, "b")', "a/{day}/b"),
        ('", ".join(["a", "b"])', "a, b"),
        ('Q = {"load": "INSERT"}\nQ["load"]', "INSERT"),
        ('def q():\n    return "INSERT"\nq()', "INSERT"),
        ("unknown", ""),
    ],
)
def test_text_is_folded_with_named_holes(code: str, text: str) -> None:
    made, node = last(code)
    assert constant(made, node) == text


def test_imports_are_resolved_whatever_they_are_called() -> None:
    made, node = last("from datetime import datetime as dt\ndt.now()")
    assert made.dotted(node) == "datetime.datetime.now()"


def test_a_chain_is_followed_through_the_variable_that_holds_its_beginning() -> None:
    made, node = last('w = df.write.mode("append")\nw.partitionBy("d").save("p")')
    assert [link.name for link in unroll(made, node).links] == ["write", "mode", "partitionBy", "save"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from datetime import date\nx = date.today()\ny = x.strftime('%d')\nuse(y)", True),
        ("from datetime import date\ndef day():\n    return date.today()\nuse(day())", True),
        ("from datetime import date\nx = date(2026, 1, 1)\nuse(x)", False),
        ("import time\nuse(time.localtime(stamp))", False),
    ],
)
def test_a_clock_is_followed_through_assignments_and_returns(code: str, found: bool) -> None:
    made, node = last(code)
    assert isinstance(node, ast.Call)
    assert (clock_flow(made).source(node.args[0]) is not None) is found


def test_a_clock_that_only_fills_in_for_a_missing_argument_is_optional() -> None:
    made = module("from datetime import date\ndef f(day=None):\n    day = day or date.today()\n    use(day)\n")
    call = next(call for call in made.calls if made.dotted(call) == "use()")
    source = clock_flow(made).source(call.args[0])
    assert source is not None
    assert source.optional


def test_a_clock_after_or_is_optional_and_one_alone_is_not() -> None:
    made, node = last("from datetime import date\nday = given or date.today()\nday")
    other, alone = last("from datetime import date\nday = date.today()\nday")
    one, two = clock_flow(made).source(node), clock_flow(other).source(alone)
    assert one is not None
    assert two is not None
    assert (one.optional, two.optional) == (True, False)


def test_a_value_that_depends_on_itself_ends() -> None:
    made, node = last("a = b\nb = a\na")
    assert clock_flow(made).source(node) is None
    assert constant(made, node) == ""
