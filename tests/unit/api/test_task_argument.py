"""A task given by itself is the one of the project's file, or refused: never the old code silently."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import twice
from twice import Policy, Task, audit
from twice.errors import UsageError
from twice.project.task_argument import declared_as
from twice.wiring.open_project import open_project

PIPELINE = """
from twice import Daily, audit, call, replace, task

RATE = 2

@task(
    "shop.revenue",
    scope=Daily("day", start="2026-06-01"),
    inputs={},
    write=replace(),
    audits=[audit.custom(lambda rows: True, name="fine")],
    effects=[call(lambda slice_, key: None, keyed=True, name="tell")],
)
def revenue(run):
    return run.spark.range(RATE)
"""
CALLS: list[Callable[[Task, Path], object]] = [
    lambda task, root: twice.run(task, date="2026-06-09", project=root),
    lambda task, root: twice.restate(task, date="2026-06-09", project=root),
    lambda task, root: twice.retry(task, date="2026-06-09", project=root),
    lambda task, root: twice.retry(task, project=root),
    lambda task, root: twice.plan(task, date="2026-06-09", project=root),
    lambda task, root: twice.backfill(task, "2026-06-09", "2026-06-10", project=root),
    lambda task, root: twice.backfill(task, "2026-06-09", "2026-06-10", dry_run=True, project=root),
    lambda task, root: twice.prove(task, date="2026-06-09", project=root),
]


@pytest.fixture
def imported(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """The task of the project's file, as a test or a notebook imports it."""
    (root / "pipelines" / "tasks.py").write_text(PIPELINE)
    monkeypatch.syspath_prepend(str(root))
    forget_pipelines()
    yield importlib.import_module("pipelines.tasks").revenue
    forget_pipelines()


def forget_pipelines() -> None:
    """Those of another project, too, that was opened in this process."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipelines"]:
        del sys.modules[name]


def cell(source: str) -> Task:
    """A task as a cell of a notebook declares it: its file is none."""
    names: dict[str, Any] = {"__name__": "__main__"}
    file = "/tmp/ipykernel_1/2.py"  # as IPython names it; there is no such file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    return next(value for value in names.values() if isinstance(value, Task))


def refused(task: Task, root: Path) -> str:
    with open_project(root) as opened, pytest.raises(UsageError) as error:
        declared_as(opened, task)
    return str(error.value)


def test_the_task_that_was_imported_from_the_file_is_the_files(imported: Task, root: Path) -> None:
    with open_project(root) as opened:
        assert declared_as(opened, imported) == "revenue"
        assert opened.project.tasks["revenue"] is not imported  # files are imported again


@pytest.mark.parametrize("call", CALLS)
def test_a_cell_with_other_code_than_the_file_is_refused_with_the_ways_out(
    imported: Task, root: Path, call: Callable[[Task, Path], object]
) -> None:
    with pytest.raises(UsageError) as error:
        call(cell(PIPELINE.replace("range(RATE)", "range(RATE + 1)")), root)
    message = str(error.value)
    assert message.startswith(
        "revenue: the task that was given is declared in a notebook or at a prompt, and is not the same as the one "
        "in pipelines/tasks.py (what differs: code, "
    )
    assert "Nothing was run." in message
    for way_out in ("%%writefile", 'give the name: "revenue"', "revenue.preview(date)"):
        assert way_out in message


def test_a_cell_is_refused_also_for_a_value_that_its_code_uses(imported: Task, root: Path) -> None:
    assert "(what differs: code, " in refused(cell(PIPELINE.replace("RATE = 2", "RATE = 3")), root)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("scope", {"scope": twice.Daily("day", start="2026-06-02")}),
        ("target", {"target": twice.read("shop.other").table}),
        ("write", {"write": twice.append_once()}),
        ("audits", {"audits": (audit.rows(at_least=1),)}),
        ("effects", {"effects": ()}),
        ("policy", {"policy": Policy(rerun="always")}),
        ("inputs", {"inputs": {"orders": twice.read("shop.orders")}}),
        ("formerly", {"formerly": ("old",)}),
        ("code", {"function": lambda run: None}),
    ],
)
def test_every_part_of_a_declaration_counts(imported: Task, root: Path, part: str, changes: dict[str, Any]) -> None:
    assert f"is not the same as the one in pipelines/tasks.py (what differs: {part})." in refused(
        replace(imported, **changes), root
    )


def test_all_that_differs_is_named(imported: Task, root: Path) -> None:
    changed = replace(imported, policy=Policy(rerun="always"), effects=())
    assert "(what differs: effects, policy)." in refused(changed, root)


def test_a_file_that_was_edited_since_the_import_is_run_as_it_is_now(imported: Task, root: Path) -> None:
    file = root / "pipelines" / "tasks.py"
    file.write_text(PIPELINE.replace("range(RATE)", "range(RATE + 1)"))
    with open_project(root) as opened:
        assert declared_as(opened, imported) == "revenue"
    file.write_text(PIPELINE.replace("2026-06-01", "2026-05-01"))
    assert "(what differs: scope)" in refused(imported, root)


def test_a_task_that_no_file_declares_is_refused_with_where_to_put_it(imported: Task, root: Path) -> None:
    message = refused(cell(PIPELINE.replace("def revenue", "def profit")), root)
    assert message.startswith(
        "profit: the task that was given is declared in a notebook or at a prompt, and in no file of the project. "
        "Nothing was run. Write it into a file of pipelines (in a notebook: %%writefile). profit.preview(date)"
    )


def test_what_only_looks_things_up_goes_by_the_name(imported: Task, root: Path) -> None:
    other = cell(PIPELINE.replace("range(RATE)", "range(RATE + 1)"))
    assert twice.history(other, project=root) == ()
    assert twice.status(other, project=root).total == 0
