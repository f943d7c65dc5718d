"""What of a task's code is other by now is named: its function, its constant, its file, its option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.test_code import Project, Replacing, a_task

from twice import Whole, replace, sql_task
from twice.core.ledger.code_parts import CodeParts, describe_change
from twice.core.task import Read, TableName
from twice.engine.code.code_hash import code_hash, code_parts

JOBS = """
    from rates import RATE, to_usd

    FACTOR = 2

    def half(x):
        return x / FACTOR

    def revenue(orders):
        return to_usd(half(orders)) * RATE
"""
RATES = """
    RATE = 3
    PLACES = 2

    class Money:
        def rounded(self, x):
            return round(x, PLACES)

    def to_usd(x):
        return Money().rounded(x)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@dataclass(frozen=True)
class Change:
    """Of the files `before`, what is said once these texts are others."""

    project: Project
    before: dict[str, str]

    def __call__(self, *edits: tuple[str, str], **options: Any) -> str:
        now = self.before
        for old, new in edits:
            assert any(old in text for text in now.values())
            now = {name: text.replace(old, new) for name, text in now.items()}
        return self.to(now, **options)

    def to(self, now: dict[str, str], **options: Any) -> str:
        return describe_change(parts(self.project, self.before), parts(self.project, now, **options))


def parts(project: Project, files: dict[str, str], **options: Any) -> CodeParts:
    return project.ask(code_parts, options=options, **files)


@pytest.fixture
def change(project: Project) -> Change:
    return Change(project, {"jobs": JOBS, "rates": RATES})


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (("* RATE", "+ RATE"), "revenue in jobs.py"),
        (("x / FACTOR", "x // FACTOR"), "half in jobs.py"),
        (("FACTOR = 2", "FACTOR = 4"), "FACTOR in jobs.py"),
        (("RATE = 3", "RATE = 4"), "RATE in rates.py"),
        (("PLACES = 2", "PLACES = 4"), "PLACES in rates.py"),
        (("round(x", "int(x"), "Money in rates.py"),
        (("return Money().", "return 2 * Money()."), "to_usd in rates.py"),
    ],
)
def test_a_function_a_constant_and_a_class_are_named_with_their_file(
    change: Change, edit: tuple[str, str], named: str
) -> None:
    assert change(edit) == f"the code changed: {named}"


def test_two_changes_are_named_and_further_ones_counted(change: Change) -> None:
    edits = ("RATE = 3", "RATE = 4"), ("FACTOR = 2", "FACTOR = 4"), ("PLACES = 2", "PLACES = 4"), ("* RATE", "+ RATE")
    assert change(*edits) == "the code changed: FACTOR in jobs.py, revenue in jobs.py, and 2 more"


def test_options_are_named_as_they_are_declared(change: Change) -> None:
    assert change(write=Replacing("other")) == "the code changed: write="
    assert change(scope=Whole()) == "the code changed: scope="
    by_other = {"orders": Read(TableName("shop.orders"), "paid_on")}
    assert change(inputs=by_other) == "the code changed: input orders"
    more = {"orders": Read(TableName("shop.orders"), "order_date"), "fees": Read(TableName("shop.fees"))}
    assert change(inputs=more) == "the code changed: input fees is new"


def test_what_is_new_or_gone_is_said_to_be(change: Change) -> None:
    new = change(("half(orders)", "half(orders) * WEIGHT"), ("FACTOR = 2", "FACTOR = 2\n    WEIGHT = 5"))
    assert new == "the code changed: revenue in jobs.py, WEIGHT in jobs.py is new"
    gone = change(("x / FACTOR", "x / 2"), ("    FACTOR = 2\n", ""))
    assert gone == "the code changed: half in jobs.py, FACTOR in jobs.py is gone"


def test_a_function_that_was_moved_reads_as_moved(project: Project) -> None:
    before = {"jobs": "from rates import RATE\ndef half(x):\n    return x / 2\n" + USES_HALF, "rates": "RATE = 3\n"}
    now = {
        "jobs": "from rates import RATE, half\n" + USES_HALF,
        "rates": "RATE = 3\ndef half(x):\n    '''Half of it.'''\n    return x / 2\n",
    }
    assert Change(project, before).to(now) == "the code changed: half moved from jobs.py to rates.py"


USES_HALF = "def revenue(orders):\n    return half(orders) * RATE\n"


def test_of_a_file_with_another_name_only_what_changed_in_it_counts_as_changed(change: Change) -> None:
    now = {
        "jobs": change.before["jobs"].replace("from rates", "from money"),
        "money": change.before["rates"].replace("RATE = 3", "RATE = 4"),
    }
    assert change.to(now) == "the code changed: RATE in money.py, 3 parts moved from rates.py to money.py"


def test_an_import_is_named_where_nothing_else_changed(project: Project) -> None:
    before = {"jobs": "from math import ceil as near\ndef revenue(orders):\n    return near(orders)\n"}
    now = {"jobs": before["jobs"].replace("ceil", "floor")}
    assert Change(project, before).to(now) == "the code changed: import near in jobs.py"


def test_statements_in_another_order_are_said_to_be(project: Project) -> None:
    before = {"jobs": "A = 1\nB = 2\ndef revenue(orders):\n    return A + B\n"}
    now = {"jobs": "B = 2\nA = 1\ndef revenue(orders):\n    return A + B\n"}
    assert Change(project, before).to(now) == "the code changed: the order of the statements in jobs.py"


def test_a_statement_without_a_name_says_its_kind_and_none_of_its_values(project: Project) -> None:
    before = {
        "jobs": "from registry import register\nregister('a secret')\nif 1:\n    RATE = 1\nelse:\n    RATE = 2\n"
        "def revenue(orders):\n    return orders\n",
        "registry": "def register(x):\n    print(x)\n",
    }
    change = Change(project, before)
    assert change(("a secret", "another")) == "the code changed: the call of register in jobs.py"
    assert change(("RATE = 2", "RATE = 3")) == "the code changed: RATE in jobs.py"


def test_names_are_those_of_any_machine_and_a_second_look_finds_the_same(project: Project) -> None:
    files = {"pkg/__init__": "", "pkg/rates": "RATE = 3\n", "jobs": "from pkg.rates import RATE\n" + USES_RATE}
    first, again = parts(project, files), parts(project, files)
    assert list(first) == [
        "scope=",
        "input orders",
        "write=",
        "import RATE in jobs.py",
        "revenue in jobs.py",
        "RATE in pkg/rates.py",
    ]
    assert list(first.items()) == list(again.items())
    elsewhere = project.ask(lambda task, root: code_parts(task, root / "another"), **files)
    assert list(elsewhere)[-3:] == ["import RATE in jobs.py", "revenue in jobs.py", "RATE in pkg/rates.py"]


USES_RATE = "def revenue(orders):\n    return orders * RATE\n"


def test_a_function_renamed_with_its_task_is_called_by_its_new_name_and_no_change(project: Project) -> None:
    before = {"jobs": "RATE = 3\n" + USES_RATE}
    now = {"jobs": before["jobs"].replace("RATE = 3", "RATE = 4").replace("def revenue", "def income")}

    def renamed(files: dict[str, str]) -> CodeParts:
        return project.ask(code_parts, function="income", options={"name": "income", "formerly": ("revenue",)}, **files)

    assert "income in jobs.py" in renamed(now)
    assert describe_change(parts(project, before), renamed(now)) == "the code changed: RATE in jobs.py"


def test_of_a_sql_task_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    file = tmp_path / "sql" / "revenue.sql"

    def declared() -> CodeParts:
        inputs = {"orders": Read(TableName("shop.orders"))}
        return code_parts(sql_task(file, "shop.revenue", scope=Whole(), write=replace(), inputs=inputs), tmp_path)

    file.write_text("SELECT region, sum(amount) AS revenue FROM shop.orders GROUP BY region")
    before = declared()
    file.write_text("SELECT region, avg(amount) AS revenue FROM shop.orders GROUP BY region")
    assert describe_change(before, declared()) == "the code changed: SQL in sql/revenue.sql"


def made_with(rate: int, half: Callable[[int], int], places: int = 2) -> Callable[[Any], Any]:
    def revenue(orders: Any, rounded: int = places) -> Any:
        return half(orders * rate + rounded)

    return revenue


def test_what_a_function_holds_is_named(tmp_path: Path) -> None:
    def said(before: Callable[..., Any], now: Callable[..., Any]) -> str:
        return describe_change(*(code_parts(a_task(each), tmp_path) for each in (before, now)))

    def half(x: int) -> int:
        return x

    assert said(made_with(1, half), made_with(2, half)) == "the code changed: the value rate that it closes over"
    assert said(made_with(1, half), made_with(1, half, 3)) == "the code changed: its default arguments"
    with_arguments = partial(half, 1), partial(half, 2)
    assert said(*with_arguments) == "the code changed: its partial arguments"


def test_a_function_beneath_a_decorator_is_named_and_not_what_holds_it(project: Project) -> None:
    for decorator in ("", "    @wraps(function)\n"):
        before = {
            "jobs": "from timing import timed\n@timed\ndef revenue(orders):\n    return orders\n",
            "timing": f"from functools import wraps\ndef timed(function):\n{decorator}"
            "    def inner(orders):\n        return function(orders)\n    return inner\n",
        }
        said = Change(project, before)(("return orders\n", "return orders + 1\n"))
        assert said == "the code changed: revenue in jobs.py"
    assert wraps is not None


def loose(text: str, **given: Any) -> CodeParts:
    held: dict[str, Any] = {"__name__": "__main__", **given}
    exec(compile(text, "<cell>", "exec"), held)
    return code_parts(a_task(held["revenue"]), Path("/nowhere"))


def test_of_a_notebook_the_function_and_the_values_it_names_are_named() -> None:
    text = "RATE = 3\ndef half(x):\n    return x / 2\ndef revenue(orders):\n    return half(orders) * RATE\n"
    before = loose(text)
    assert describe_change(before, loose(text.replace("= 3", "= 4"))) == "the code changed: RATE"
    assert describe_change(before, loose(text.replace("x / 2", "x // 3"))) == "the code changed: half"
    assert describe_change(before, loose(text.replace("* RATE", "+ RATE"))) == "the code changed: revenue"


def test_code_with_another_hash_has_other_parts(project: Project) -> None:
    """So that a change is rarely without a name."""

    def both(**files: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        return project.ask(lambda task, root: (code_hash(task), tuple(code_parts(task, root).items())), **files)

    texts = [
        "A = 1\n",
        "A = 2\n",
        "A, B = 1, 2\n",
        "A = 1\nA = A + 1\n",
        "for A in range(3): pass\n",
        "try: A = 1\nexcept ValueError: A = 2\n",
    ]
    found = [both(jobs=text + "def revenue(orders):\n    return A\n") for text in texts]
    assert len({hash_ for hash_, _ in found}) == len({named for _, named in found}) == len(texts)
