"""Whose records a project's are is read from the text of its files only where the import would say the same."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import twice
from twice.config import load
from twice.wiring.discover import discover
from twice.wiring.open_project import OpenProject
from twice.wiring.record_owner import record_owner_of
from twice.wiring.written_tasks import written_tasks

ROOT = Path(__file__).parents[3]
OF_THE_PROJECT = {"pipelines", "shared", "shared_tasks", "company", "lib", "this"}

HEAD = """
from twice import Daily, Whole, audit, read, replace, sql_task, task
"""
REVENUE = """
@task("shop.revenue", scope=Whole(), write=replace())
def revenue(): ...
"""
PLAIN = {
    "a task and its constants": '''
        """What was earned."""
        from __future__ import annotations
        import os.path
        import logging, os
        from dataclasses import dataclass
        from decimal import Decimal
        from typing import TYPE_CHECKING
        from pyspark.sql import types as T
        from twice import Daily, audit, read, replace
        from twice import task as declare
        if TYPE_CHECKING:
            from pyspark.sql import DataFrame

        LOG = logging.getLogger(__name__)
        DAILY = Daily("day", start="2026-01-01")
        ORDERS = T.StructType().add("id", T.LongType()).add("day", T.DateType())
        RATES: dict[str, Decimal] = {"EU": Decimal("1.2"), **{name: Decimal(1) for name in ("US", "UK")}}
        AUDITS = [audit.not_null("id"), *([audit.rows(at_least=1)] if os.environ.get("STRICT") else [])]

        @dataclass
        class Shop:
            name: str = "x"

        def cleaned(orders): return orders.where("id > 0")

        @declare("shop.revenue", scope=DAILY, inputs={"o": read("shop.orders", by="day")}, write=replace(),
                 audits=AUDITS)
        def revenue(o) -> DataFrame: return cleaned(o)

        @declare(target="memory:public.best", name="best_of", scope=DAILY, write=replace())
        def best(): ...

        if __name__ == "__main__":
            print(revenue)
        ''',
    "SQL": HEAD + 'best = sql_task("best.sql", "shop.best", scope=Whole(), inputs={}, write=replace())',
    "a name of another pipeline file": HEAD + REVENUE + "from pipelines.other import LIMIT, other\nX = [LIMIT, other]",
    "a name of a file beside the pipelines": HEAD + REVENUE + "from shared import REGIONS\nALL = sorted(REGIONS)",
    "a name of a module that is no pipeline file": HEAD + REVENUE + "from ._columns import REGION\nX = REGION",
    "the whole of twice": "import twice\n"
    + REVENUE.replace("@task", "@twice.task").replace("Whole", "twice.Whole").replace("replace", "twice.replace"),
}

HIDDEN = {
    "a loop": "for n in range(2):\n    globals()[f't{n}'] = task(f'shop.t{n}', OPTIONS, name=f't{n}')(f)",
    "a function of the file": "def made(name): return task(name, OPTIONS)(f)\nt = made('shop.t')",
    "a decorator of the file": "def declared(f): return task('shop.t', OPTIONS)(f)\n@declared\ndef t(): ...",
    "two decorators": "@task('shop.t', OPTIONS)\n@str\ndef t(): ...",
    "a table from a variable": "import os\n@task(os.environ.get('T', 'shop.t'), OPTIONS)\ndef t(): ...",
    "a name from a variable": "N = 'n'\n@task('shop.t', OPTIONS, name=N)\ndef t(): ...",
    "options from elsewhere": "ALL = {'name': 'n'}\n@task('shop.t', OPTIONS, **ALL)\ndef t(): ...",
    "a renamed task": "@task('shop.t', OPTIONS, formerly=['u'])\ndef t(): ...",
    "a condition": "if len('x'):\n    @task('shop.t', OPTIONS)\n    def t(): ...",
    "a try": "try:\n    @task('shop.t', OPTIONS)\n    def t(): ...\nfinally: pass",
    "two tasks of one name at a time": "@task('shop.t', OPTIONS)\ndef revenue(): ...",
    "a task that is taken away": "del revenue",
    "a task that becomes something else": "revenue = 3",
    "another task of a task": "import dataclasses\nt = dataclasses.replace(revenue, name='t')",
    "a copy of a task": "import copy\nt = copy.copy(revenue)",
    "a task without its decorator": "t = task('shop.t', OPTIONS)(f)",
    "a task under another name of the declarer": "made = task\n@made('shop.t', OPTIONS)\ndef t(): ...",
    "a declarer in a function that runs": "t = sorted([1], key=lambda _: task('shop.t', OPTIONS))",
    "a task of a module beside": "from shared_tasks import hidden",
    "a task of a module that is no pipeline file": "from pipelines._hidden import hidden",
    "a task as a part of a module": "import shared_tasks\nt = shared_tasks.hidden",
    "what another file makes": "from shared import made\nt = made()",
    "every name of a module": "from shared_tasks import *",
    "a package that is not known": "from some_package import t",
    "an assignment inside an expression": "X = [(t := task('shop.t', OPTIONS)(f))]",
    "several names at once": "t, u = 1, 2",
    "a class of its own in place of twice's": "def task(*a, **k): return lambda f: f",
    "another twice": "import shared as twice\nt = twice.made()",
    "a file that is not Python": "def",
    "a decorator's argument": "import functools\n@functools.partial(task('shop.t', OPTIONS))\ndef t(): ...",
    "a function of the file that a decorator calls": (
        "import functools\ndef made(f): return task('shop.t', OPTIONS)(f)\n@functools.partial(made)\ndef t(): ..."
    ),
    "a decorator's argument on a class": "import functools\n@functools.partial(task('shop.t', OPTIONS))\nclass t: ...",
    "what makes a class": "def made(*a): return task('shop.t', OPTIONS)(f)\nclass t(metaclass=made): ...",
    "what makes a class, in a dictionary": (
        "def made(*a): return task('shop.t', OPTIONS)(f)\nclass t(**{'metaclass': made}): ..."
    ),
    "what a class is made of": "class t(task('shop.t', OPTIONS)(f)): ...",
    "another task in the place of twice's, inside a class": "import twice\nclass C:\n    twice.task = f",
    "another task in the place of twice's, in a function that runs": (
        "import twice\ndef replace_it(_): twice.task = f\nX = sorted([1], key=replace_it)"
    ),
    "an import inside a class": "class C:\n    import shared_tasks",
    "a flag of the file's own for a type checker": (
        "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    @task('shop.t', OPTIONS)\n    def t(): ..."
    ),
    "a type checker's flag of another file": (
        "from shared import TYPE_CHECKING\nif TYPE_CHECKING:\n    @task('shop.t', OPTIONS)\n    def t(): ..."
    ),
    "a type checker's flag of another module": (
        "import shared\nif shared.TYPE_CHECKING:\n    @task('shop.t', OPTIONS)\n    def t(): ..."
    ),
    "a file that calls itself the program": (
        "__name__ = '__main__'\nif __name__ == '__main__':\n    @task('shop.t', OPTIONS)\n    def t(): ..."
    ),
}

OTHER_TASK = """
import twice
plain = twice.task
def of_dev(target, **options): return plain("dev_" + target, **options)
twice.task = of_dev
"""
A_TASK = HEAD + REVENUE.replace("revenue", "hidden")
REPLACED = {
    "a module": ("import company", ["company.py"]),
    "a module under another name": ("import company as c", ["company.py"]),
    "a package": ("import company", ["company/__init__.py"]),
    "a package on the way": ("import company.names", ["company/__init__.py"]),
    "a package on the way to a name": ("from company.names import REGION", ["company/__init__.py"]),
    "a module of a package": ("import company.tasks", ["company/tasks.py"]),
    "a module of a package as a name of it": ("from company import tasks", ["company/tasks.py"]),
    "a module of a whole package": ("from company import tasks", ["company/tasks.py", "company/__init__.py"]),
    "a module beside the pipelines' own": ("from . import _tasks", ["pipelines/_tasks.py"]),
    "the package of the pipelines": ("", ["pipelines/__init__.py"]),
    "a module in the place of Python's own": ("import this", ["this.py"]),
}
"""What the pipeline file imports, and the file that replaces `twice.task`; those after it are empty."""
OF_TWO = {
    "a module beside a folder": ({"lib.py": A_TASK, "lib/hidden.py": ""}, "from lib import hidden"),
    "a module beside a folder, whole": ({"lib.py": OTHER_TASK, "lib/x.py": ""}, "import lib"),
    "a package beside a module": ({"lib.py": "hidden = 1", "lib/__init__.py": A_TASK}, "from lib import hidden"),
    "a name of a package with a module of that name": (
        {"lib/__init__.py": A_TASK, "lib/hidden.py": ""},
        "from lib import hidden",
    ),
}
PLAIN_BESIDE = {
    "a module": ({"company.py": "LIMIT = 3"}, "import company"),
    "a package and two of its modules": (
        {"company/__init__.py": "", "company/a.py": "from .b import B", "company/b.py": "import company.a\nB = 1"},
        "import company.a, company.b\nfrom company import a\nfrom company.b import B\nX = [a, B]",
    ),
    "a folder without a package": ({"company/a.py": "B = 1"}, "import company.a\nfrom company import a"),
    "a module beside a folder": ({"lib.py": "LIMIT = 1", "lib/x.py": A_TASK}, "from lib import LIMIT\nX = LIMIT"),
    "a package beside a module": ({"lib.py": A_TASK, "lib/__init__.py": "LIMIT = 1"}, "from lib import LIMIT"),
    "classes": (
        {"company.py": "class Base: ..."},
        """
from abc import ABC, ABCMeta
from functools import lru_cache
from typing import NamedTuple, TypedDict
from company import Base
class Row(TypedDict, total=False): ...
class Pair(NamedTuple): ...
class Own(Base, ABC): ...
class Other(metaclass=ABCMeta): ...
@lru_cache(maxsize=1)
def cached(): ...
""",
    ),
    "a type checker's flag": (
        {},
        "import typing, typing as t\nfrom typing import TYPE_CHECKING as CHECKED\n"
        + "".join(
            f"if {flag}:\n    import no_module\n" for flag in ("typing.TYPE_CHECKING", "t.TYPE_CHECKING", "CHECKED")
        ),
    ),
}
"""The files beside, and what the pipeline file does."""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text('project = "shop"\n')
    (tmp_path / "shared.py").write_text("REGIONS = {'EU'}\nTYPE_CHECKING = True\ndef made(): ...\n")
    (tmp_path / "shared_tasks.py").write_text(HEAD + REVENUE.replace("revenue", "hidden"))
    (tmp_path / "pipelines" / "_columns.py").write_text("REGION = 'region'\n")
    (tmp_path / "pipelines" / "_hidden.py").write_text(HEAD + REVENUE.replace("revenue", "hidden"))
    (tmp_path / "pipelines" / "other.py").write_text(HEAD + REVENUE.replace("revenue", "other") + "LIMIT = 3\n")
    (tmp_path / "pipelines" / "best.sql").write_text("SELECT 1 AS one")
    yield tmp_path
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]
    forget_modules()


def facts(root: Path) -> dict[str, str] | None:
    found = written_tasks(root, [root / "pipelines"], "delta")
    return None if found is None else {name: str(task.target) for name, task in found.items()}


def imported(root: Path) -> dict[str, str]:
    found = discover("shop", root, [root / "pipelines"])
    return {name: str(task.target) for name, task in found.tasks.items()}


def write(root: Path, text: str) -> None:
    (root / "pipelines" / "jobs.py").write_text(textwrap.dedent(text))


def write_beside(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


def forget_modules() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in OF_THE_PROJECT]:
        del sys.modules[name]


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_what_is_read_as_text_is_what_the_import_declares(root: Path, text: str) -> None:
    write(root, text)
    read = facts(root)
    assert read == imported(root)
    assert len(read or ()) > 1


@pytest.mark.parametrize("more", HIDDEN.values(), ids=HIDDEN)
def test_what_may_declare_in_another_way_is_not_read_as_text(root: Path, more: str) -> None:
    head = f"{HEAD}def f(): ...\n{REVENUE}"
    write(root, head)
    assert facts(root) == {"other": "shop.other", "revenue": "shop.revenue"}
    write(root, head + more.replace("OPTIONS", "scope=Whole(), write=replace()"))
    assert facts(root) is None


@pytest.mark.parametrize(("statement", "files"), REPLACED.values(), ids=REPLACED)
def test_where_a_file_that_is_imported_replaces_what_declares_tasks_the_files_are_imported(
    root: Path, monkeypatch: pytest.MonkeyPatch, statement: str, files: list[str]
) -> None:
    text = "import twice\n" + REVENUE.replace("@task", "@twice.task").replace("scope=Whole", "scope=twice.Whole")
    text = text.replace("replace()", "twice.replace()")
    write_beside(root, {"company/names.py": "REGION = 'EU'"} | dict.fromkeys(files[1:], "") | {files[0]: ""})
    write(root, f"{statement}\n{text}")
    assert facts(root) == imported(root)
    write_beside(root, {files[0]: OTHER_TASK})
    assert facts(root) is None
    monkeypatch.setattr("twice.task", twice.task)  # and put back at the end
    forget_modules()
    assert imported(root)["revenue"] == "dev_shop.revenue"


@pytest.mark.parametrize(("files", "statement"), OF_TWO.values(), ids=OF_TWO)
def test_of_two_files_of_one_module_the_one_that_python_takes_is_read(
    root: Path, files: dict[str, str], statement: str
) -> None:
    write_beside(root, files)
    write(root, HEAD + REVENUE + statement)
    assert facts(root) is None


@pytest.mark.parametrize(("files", "statement"), PLAIN_BESIDE.values(), ids=PLAIN_BESIDE)
def test_what_is_plain_beside_the_pipelines_leaves_them_plain(
    root: Path, files: dict[str, str], statement: str
) -> None:
    write_beside(root, files)
    write(root, HEAD + REVENUE + statement)
    assert facts(root) == imported(root) == {"other": "shop.other", "revenue": "shop.revenue"}


def test_two_tasks_of_one_table_are_left_to_the_import_which_refuses_them(root: Path) -> None:
    write(root, HEAD + REVENUE + REVENUE.replace("def revenue", "def again").replace("shop.", "delta:SHOP."))
    assert facts(root) is None


def test_files_that_import_each_other_in_a_ring_are_left_to_the_import(root: Path) -> None:
    (root / "one.py").write_text("from two import A\n")
    (root / "two.py").write_text("from one import A\n")
    write(root, HEAD + REVENUE + "from one import A\n")
    assert facts(root) is None


def test_the_examples_are_read_as_text_and_belong_to_the_same_owner_as_when_they_are_imported() -> None:
    opened = OpenProject(load(ROOT / "examples" / "worldshop"))
    settings = opened.settings
    read = written_tasks(settings.root, settings.pipelines, settings.format)
    assert read is not None
    assert record_owner_of(settings, read.values()) == record_owner_of(settings, opened.project.tasks.values())


def test_a_ledger_is_opened_without_importing_the_pipelines(root: Path) -> None:
    write(root, HEAD + REVENUE + "import no_such_module\n")
    opened = OpenProject(load(root))
    try:
        assert sorted(opened.ledger.owner.tables) == ["other", "revenue"]
        assert opened.task_name("revenue") == "revenue"
    finally:
        opened.close()
