"""Same code, same hash; another meaning, another hash. Modules are real files, loaded as a project's are."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from twice.core.audit import not_null
from twice.core.scope import Daily, Hourly, Scope, Whole, days
from twice.core.slice import Slice
from twice.core.task import Policy, Read, TableName, Task
from twice.core.write import ReplaceRows
from twice.engine.code.code_hash import code_hash

T = TypeVar("T")


@dataclass(frozen=True)
class Replacing:
    """A strategy as the strategies room will have it."""

    note: str = ""

    @property
    def name(self) -> str:
        return "replace"

    def check(self, scope: Scope) -> None: ...

    def compile(self, slices: tuple[Slice, ...]) -> ReplaceRows:
        return ReplaceRows(slices)


def a_task(function: Callable[..., Any], **options: Any) -> Task:
    settings: dict[str, Any] = {
        "name": "revenue",
        "target": TableName("shop.revenue"),
        "scope": Daily("order_date", start="2026-01-01"),
        "inputs": {"orders": Read(TableName("shop.orders"), "order_date")},
        "write": Replacing(),
    }
    return Task(function=function, **{**settings, **options})


class Project:
    """A folder of modules, loaded as if by a new process at each `hash`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.round = 0

    def hash(self, task_module: str = "jobs.py", function: str = "revenue", options: Any = None, **files: str) -> str:
        return self.ask(lambda task, _: code_hash(task), task_module, function, options, **files)

    def ask(
        self,
        question: Callable[[Task, Path], T],
        task_module: str = "jobs.py",
        function: str = "revenue",
        options: Any = None,
        **files: str,
    ) -> T:
        """Of the task of these files, and their folder."""
        self.round += 1
        root = self.folder / f"round{self.round}"
        for name, text in files.items():
            path = root / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        before = set(sys.modules)
        sys.path.insert(0, str(root))
        try:
            name = task_module.removesuffix(".py").replace("/", ".")
            spec = importlib.util.spec_from_file_location(name, root / task_module)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            found = getattr(module, function)
            return question(found if isinstance(found, Task) else a_task(found, **(options or {})), root)
        finally:
            sys.path.remove(str(root))
            for loaded in set(sys.modules) - before:
                if getattr(sys.modules[loaded], "__file__", None) and str(root) in str(sys.modules[loaded].__file__):
                    del sys.modules[loaded]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    yield Project(tmp_path)


PLAIN = """
    RATE = 3

    def convert(x):
        return x * RATE

    def revenue(orders):
        return convert(orders)
"""


def test_comments_docstrings_and_layout_are_not_code(project: Project) -> None:
    other = """
        '''Now with words.'''
        RATE    =   3   # the rate

        def convert(x):
            '''Converts.'''
            return (x
                    * RATE)


        def revenue( orders ):
            "Says what it does."
            pass
            return convert(orders)
    """
    assert project.hash(jobs=PLAIN) == project.hash(jobs=other)


@pytest.mark.parametrize(
    ("old", "new"),
    [("RATE = 3", "RATE = 4"), ("x * RATE", "x + RATE"), ("convert(orders)", "convert(convert(orders))")],
)
def test_a_constant_a_called_function_and_the_body_all_count(project: Project, old: str, new: str) -> None:
    assert project.hash(jobs=PLAIN) != project.hash(jobs=PLAIN.replace(old, new))


def test_true_and_one_are_different_constants(project: Project) -> None:
    assert project.hash(jobs=PLAIN.replace("= 3", "= 1")) != project.hash(jobs=PLAIN.replace("= 3", "= True"))


TWO_TASKS = """
    from decimal import Decimal
    from twice.core.task import read
    from twice import task

    FEE = Decimal("0.10")
    AUDITS = [1, 2]

    def fee(x):
        return x + FEE

    @task("shop.fees", inputs=read('shop.orders'), audits=AUDITS)
    def fees(orders):
        return fee(orders)
"""


@pytest.fixture
def task_decorator(monkeypatch: pytest.MonkeyPatch) -> None:
    """`twice.task` as far as a module needs it to load."""
    import twice

    monkeypatch.setattr(twice, "task", lambda *_, **__: lambda function: function, raising=False)


@pytest.mark.usefixtures("task_decorator")
def test_a_second_task_in_the_file_does_not_make_the_first_stale(project: Project) -> None:
    alone = "from twice import task\n" + textwrap.dedent(PLAIN).replace("def revenue", "@task('a.b')\ndef revenue")
    both = textwrap.dedent(TWO_TASKS) + alone.replace("from twice import task\n", "")
    assert project.hash(jobs=alone) == project.hash(jobs=both)


@pytest.mark.usefixtures("task_decorator")
def test_another_task_that_the_function_calls_counts(project: Project) -> None:
    both = textwrap.dedent(TWO_TASKS) + textwrap.dedent(PLAIN).replace("return convert(orders)", "return fees(orders)")
    assert project.hash(jobs=both) != project.hash(jobs=both.replace('"0.10"', '"0.20"'))


SHADOWED = """
    from twice import task

    @task("shop.payments")
    def payments(raw):
        return raw

    @task("shop.revenue")
    def revenue(payments, orders):
        {body}
"""


@pytest.mark.usefixtures("task_decorator")
@pytest.mark.parametrize(
    "body",
    [
        "return payments",
        "return [row for row in payments]",
        "return (lambda: payments)()",
        "return lambda payments: payments.count()",
        "return {payments: 1 for payments in orders}",
        "def inner():\n            return payments\n        return inner()",
        "class Kept:\n            def of(self):\n                return payments\n        return Kept",
        "payments = orders\n        return payments",
    ],
)
def test_a_parameter_with_the_name_of_another_task_is_not_that_task(project: Project, body: str) -> None:
    text = textwrap.dedent(SHADOWED).replace("{body}", body.replace("\n    ", "\n"))
    assert project.hash(jobs=text) == project.hash(jobs=text.replace("return raw", "return raw + 1"))


@pytest.mark.usefixtures("task_decorator")
@pytest.mark.parametrize(
    "function",
    [
        "def revenue(orders, kept=payments):\n    return kept",
        "def revenue(orders):\n    return (lambda payments=payments: payments)()",
        "def revenue(orders):\n    return [payments for payments in payments(orders)]",
        "def revenue(orders):\n    global payments\n    payments = payments(orders)\n    return payments",
        "def revenue(orders):\n    class Kept:\n        payments = payments\n    return Kept.payments(orders)",
        "def revenue(orders):\n    class Kept:\n        payments = 1\n"
        "        def of(self):\n            return payments(orders)\n    return Kept().of()",
        "def revenue(orders):\n    def inner(payments):\n        return payments\n    return inner(payments(orders))",
        "def wrapped(function):\n    return function\n\ndef revenue(orders):\n"
        "    @wrapped\n    def inner(payments=payments):\n        return payments(orders)\n    return inner()",
    ],
)
def test_what_is_evaluated_in_the_modules_scope_counts(project: Project, function: str) -> None:
    task = "from twice import task\n@task('shop.payments')\ndef payments(raw):\n    return raw\n\n"
    text = f"{task}{function}\n"
    assert project.hash(jobs=text) != project.hash(jobs=text.replace("return raw", "return raw + 1"))


@pytest.mark.usefixtures("task_decorator")
def test_the_text_of_the_declaration_is_not_code(project: Project) -> None:
    text = "from twice import task\n@task('a.b', audits=[{}])\ndef revenue(orders):\n    return orders\n"
    assert project.hash(jobs=text.format(1)) == project.hash(jobs=text.format(2))


def test_a_decorator_of_the_project_counts_even_on_functions_nobody_names(project: Project) -> None:
    text = """
        RULES = []
        def rule(function):
            RULES.append(function)
            return function

        @rule
        def positive(x):
            return x > {}

        def revenue(orders):
            return [each(orders) for each in RULES]
    """
    assert project.hash(jobs=text.format(0)) != project.hash(jobs=text.format(1))


def test_a_statement_that_changes_a_constant_counts(project: Project) -> None:
    changed = textwrap.dedent(PLAIN) + "RATES = {}\nRATES['EUR'] = 1\n"
    assert project.hash(jobs=PLAIN) != project.hash(jobs=changed)


def test_a_main_block_does_not_count(project: Project) -> None:
    assert project.hash(jobs=PLAIN) == project.hash(
        jobs=textwrap.dedent(PLAIN) + "if __name__ == '__main__':\n    revenue(1)\n"
    )


def test_imported_project_modules_count_however_deep(project: Project) -> None:
    files = {
        "jobs": "from shop.rates import rate\ndef revenue(orders):\n    return rate(orders)\n",
        "shop/__init__": "",
        "shop/rates": "from .table import EUR\ndef rate(x):\n    return x * EUR\n",
        "shop/table": "EUR = 2\n",
    }
    assert project.hash(**files) == project.hash(**files)
    assert project.hash(**files) != project.hash(**{**files, "shop/table": "EUR = 3\n"})
    assert project.hash(**files) != project.hash(**{**files, "shop/__init__": "import os\nos.environ['X'] = '1'\n"})


def test_a_module_imported_inside_the_function_counts(project: Project) -> None:
    files = {"jobs": "def revenue(orders):\n    from late import x\n    return x\n", "late": "x = 1\n"}
    assert project.hash(**files) != project.hash(**{**files, "late": "x = 2\n"})


def test_modules_that_exchange_their_contents_are_not_the_same(project: Project) -> None:
    jobs = "import a, b\ndef revenue(orders):\n    return orders * a.x - b.x\n"
    assert project.hash(jobs=jobs, a="x = 1\n", b="x = 2\n") != project.hash(jobs=jobs, a="x = 2\n", b="x = 1\n")


def test_a_module_that_only_another_task_uses_does_not_count(project: Project) -> None:
    jobs = "from a import x\nfrom b import y\ndef other():\n    return y\ndef revenue(orders):\n    return x\n"
    assert project.hash(jobs=jobs, a="x = 1", b="y = 1") == project.hash(jobs=jobs, a="x = 1", b="y = 2")


def test_a_name_added_to_an_import_for_another_task_does_not_count(project: Project) -> None:
    jobs = "from a import {}\ndef other():\n    return y\ndef revenue(orders):\n    return x\n"
    a = "x = 1\ny = 2\n"
    assert project.hash(jobs=jobs.format("x"), a=a) == project.hash(jobs=jobs.format("x, y"), a=a)


def test_the_order_of_a_dictionary_counts() -> None:
    """It may be the order of the result's columns."""

    def make(names: dict[str, str]) -> Callable[..., Any]:
        return lambda orders: names

    assert code_hash(a_task(make({"a": "x", "b": "y"}))) != code_hash(a_task(make({"b": "y", "a": "x"})))


def test_a_module_imported_for_what_loading_it_does_counts(project: Project) -> None:
    jobs = "import patches\ndef revenue(orders):\n    return orders\n"
    assert project.hash(jobs=jobs, patches="import os\n") != project.hash(jobs=jobs, patches="import re\n")


def test_code_that_can_reach_any_name_counts_as_a_whole(project: Project) -> None:
    jobs = "SECRET = {}\ndef revenue(orders):\n    return globals()['SEC' + 'RET']\n"
    assert project.hash(jobs=jobs.format(1)) != project.hash(jobs=jobs.format(2))


def test_installed_packages_do_not_count(project: Project) -> None:
    jobs = "import sqlglot\ndef revenue(orders):\n    return sqlglot.__version__\n"
    assert len(project.hash(jobs=jobs)) == 32


def test_values_a_function_closes_over_count() -> None:
    def make(factor: Any) -> Callable[..., Any]:
        def revenue(orders: Any) -> Any:
            return orders * factor

        return revenue

    same, other = code_hash(a_task(make({"a", "b"}))), code_hash(a_task(make({"a", "c"})))
    assert same == code_hash(a_task(make({"b", "a"})))
    assert same != other
    assert code_hash(a_task(make(date(2026, 1, 1)))) != code_hash(a_task(make(date(2026, 1, 2))))


def test_arguments_bound_by_a_partial_count() -> None:
    def revenue(orders: Any, factor: int) -> Any:
        return orders * factor

    assert code_hash(a_task(partial(revenue, factor=1))) != code_hash(a_task(partial(revenue, factor=2)))


def prompt(text: str) -> Callable[..., Any]:
    """A function as typed at a prompt: there is no source anywhere."""
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(text), "<stdin>", "exec"), names)
    return names["revenue"]  # type: ignore[no-any-return]


def test_a_function_without_source_counts_by_its_bytecode_and_globals() -> None:
    text = "RATE = {}\ndef convert(x):\n    return x * RATE\ndef revenue(orders):\n    return convert(orders) + {}\n"
    same = code_hash(a_task(prompt(text.format(3, 1))))
    assert same == code_hash(a_task(prompt(text.format(3, 1))))
    assert same != code_hash(a_task(prompt(text.format(4, 1))))
    assert same != code_hash(a_task(prompt(text.format(3, 2))))


def test_a_class_made_at_a_prompt_counts_by_its_methods() -> None:
    text = "class Rate:\n    def of(self):\n        return {}\ndef revenue(orders):\n    return Rate().of()\n"
    same = code_hash(a_task(prompt(text.format(1))))
    assert same == code_hash(a_task(prompt(text.format(1))))
    assert same != code_hash(a_task(prompt(text.format(2))))


def test_functions_that_hold_each_other_end() -> None:
    def revenue(orders: Any) -> Any:
        return other(orders)

    def other(orders: Any) -> Any:
        return revenue(orders)

    assert code_hash(a_task(revenue)) == code_hash(a_task(revenue))


def test_a_function_of_a_notebook_counts_by_its_cell_and_the_values_it_names() -> None:
    import linecache

    def cell(number: int, text: str, names: dict[str, Any]) -> Callable[..., Any]:
        file = f"<ipython-input-{number}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        return names["revenue"]  # type: ignore[no-any-return]

    text = "def revenue(orders):\n    return orders * RATE\n"
    same = code_hash(a_task(cell(1, text, {"RATE": 1})))
    assert same == code_hash(a_task(cell(2, text.replace("\n  ", "\n\n  # a comment\n  "), {"RATE": 1})))
    assert same != code_hash(a_task(cell(3, text, {"RATE": 2})))


def test_a_parameter_of_a_notebooks_function_is_not_the_value_of_that_name() -> None:
    import linecache

    text = "def revenue(orders, payments):\n    return payments\n"
    file = "<ipython-input-9>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    hashes = set()
    for value in (1, 2):
        names: dict[str, Any] = {"payments": value}
        exec(compile(text, file, "exec"), names)
        hashes.add(code_hash(a_task(names["revenue"])))
    assert len(hashes) == 1


def nothing(orders: Any) -> Any:
    return orders


@pytest.mark.parametrize(
    "change",
    [
        {"scope": Daily("created_on", start="2026-01-01")},
        {"scope": Daily("order_date", start="2026-01-01", zone="Europe/Berlin")},
        {"scope": Daily("order_date", start="2026-01-01", slice_column="day")},
        {"scope": Hourly("order_date", start="2026-01-01T00")},
        {"scope": Whole()},
        {"inputs": {"orders": Read(TableName("shop.orders_usd"), "order_date")}},
        {"inputs": {"orders": Read(TableName("shop.orders"))}},
        {"inputs": {"orders": Read(TableName("shop.orders"), "order_date", days(7))}},
        {"write": Replacing("another option")},
        {"sql": "SELECT 1"},
    ],
    ids=lambda change: str(next(iter(change.items())))[:60],
)
def test_an_option_that_shapes_the_result_counts(change: dict[str, Any]) -> None:
    assert code_hash(a_task(nothing)) != code_hash(a_task(nothing, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"audits": (not_null("revenue"),)},
        {"policy": Policy(rerun="always", empty="refuse", allow=("rand",))},
        {"scope": Daily("order_date", start="2020-01-01", lookback=3)},
        {"name": "income", "formerly": ("revenue",)},
        {"target": TableName("shop.revenue", "delta")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_option_that_changes_no_row_does_not_count(change: dict[str, Any]) -> None:
    assert code_hash(a_task(nothing)) == code_hash(a_task(nothing, **change))


RENAMED = {"name": "income", "formerly": ("revenue", "takings")}


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "import functools\ndef kept(f):\n    return functools.wraps(f)(lambda orders: f(orders))\n\n@kept\n"
        "def revenue(orders):\n    return orders\n",
    ],
    ids=["plain", "decorated"],
)
def test_a_function_that_was_renamed_with_its_task_is_the_same_code(project: Project, text: str) -> None:
    renamed = text.replace("def revenue", "def income")
    assert project.hash(jobs=text) == project.hash(jobs=renamed, function="income", options=RENAMED)
    assert project.hash(jobs=text) != project.hash(jobs=renamed, function="income", options={"name": "income"})
    changed = renamed.replace("(orders)\n", "(orders)  + 1\n").replace("return orders\n", "return orders + 1\n")
    assert project.hash(jobs=text) != project.hash(jobs=changed, function="income", options=RENAMED)


def test_a_name_that_something_else_of_the_module_has_now_is_not_taken_for_the_function(project: Project) -> None:
    called = "def income(orders):\n    return revenue(orders)\n\ndef revenue(orders):\n    return orders\n"
    itself = "def revenue(orders):\n    return revenue(orders)\n\ndef revenue(orders):\n    return orders\n"
    assert project.hash(jobs=itself) != project.hash(jobs=called, function="income", options=RENAMED)


def test_a_function_of_a_notebook_that_was_renamed_with_its_task_is_the_same_code() -> None:
    import linecache

    hashes = set()
    for number, name in enumerate(("revenue", "income")):
        text, file = f"def {name}(orders):\n    return orders\n", f"<ipython-input-3{number}>"
        names: dict[str, Any] = {}
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        hashes.add(code_hash(a_task(names[name], **(RENAMED if name == "income" else {}))))
    assert len(hashes) == 1


def test_sql_counts_without_its_comments_and_line_breaks() -> None:
    task = a_task(nothing, sql="SELECT a, 'x  y'\nFROM shop.orders -- all\n")
    assert code_hash(task) == code_hash(replace(task, sql="SELECT a,  'x  y' /* b */ FROM shop.orders;"))
    assert code_hash(task) != code_hash(replace(task, sql="SELECT a, 'x y' FROM shop.orders"))


def test_the_hash_is_the_same_in_another_process() -> None:
    script = (
        "from twice.core.task import *; from twice.core.scope import *\n"
        "from twice.engine.code.code_hash import code_hash\n"
        "class R:\n    name = 'replace'\n"
        "def f(orders):\n    return orders + 1\n"
        "c = {'x', 'y', 'z', 'w'}\n"
        "def g(orders):\n    return c\n"
        "print(code_hash(Task('t', TableName('a.b'), Whole(), {}, R(), f)),"
        " code_hash(Task('t', TableName('a.b'), Whole(), {}, R(), g)))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


def test_the_hash_does_not_depend_on_the_version_of_python(project: Project) -> None:
    """The value is written down: on another Python this test fails if the text of a tree differs there."""
    jobs = """
        import math
        def revenue(orders, *rest, n: int = 1, **more):
            with open("x") as file, open("y"):
                pass
            try:
                values = [f"{x:>{n}}" for x in rest if x] + [lambda a, /, b=1: a[1:2]]
            except (OSError, ValueError):
                raise
            else:
                match n:
                    case 1 | 2:
                        return {**more, "a": math.pi, "b": 1e3, "c": b"x", "d": "ü"}
            return values
    """
    assert project.hash(jobs=jobs) == "4d18d5166dbfa36d040b941fc02ae7c6"


def test_timedelta_and_tables_are_written_stably() -> None:
    wide = a_task(nothing, inputs={"orders": Read(TableName("shop.orders"), "d", timedelta(days=1))})
    assert code_hash(wide) == code_hash(
        a_task(nothing, inputs={"orders": Read(TableName("Shop.Orders"), "d", timedelta(hours=24))})
    )


@pytest.mark.parametrize(
    "reach",
    [
        "    import importlib\n    return importlib.import_module('jobs').RATE\n",
        "    from builtins import eval\n    return eval('RATE')\n",
    ],
)
def test_what_a_function_imports_to_reach_anything_counts_as_anything(project: Project, reach: str) -> None:
    text = "RATE = {}\ndef revenue(orders):\n" + reach
    assert project.hash(jobs=text.format(1)) != project.hash(jobs=text.format(2))


@pytest.mark.parametrize(
    "binding",
    [
        "X = (RATE := {})\n",
        "XS = [RATE := r for r in ({},)]\n",
        "def other(a=(RATE := {})):\n    pass\n",
        "class C:\n    global RATE\n    RATE = {}\n",
    ],
)
def test_a_name_that_a_statement_binds_inside_counts(project: Project, binding: str) -> None:
    text = binding + "def revenue(orders):\n    return orders * RATE\n"
    assert project.hash(jobs=text.format(1)) != project.hash(jobs=text.format(2))


def test_a_long_chain_of_calls_is_no_error(project: Project) -> None:
    text = "def revenue(orders):\n    return orders" + ".where('a')" * 200 + "\n"
    assert project.hash(jobs=text)
