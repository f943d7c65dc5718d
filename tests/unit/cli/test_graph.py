"""`twice graph`: what reads what, from the declarations alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twice.cli.main import app

PIPELINES = """
from twice import Daily, Since, Whole, hours, insert_new, merge, read, replace, task

def never(*args, **inputs):
    raise AssertionError("a task was called")

copied = task("shop.orders_copy", name="orders_copy", write=merge(["region", "id"], newest_by="updated_at"),
              scope=Since("updated_at", initial="2026-01-01T00:00:00Z", lag=hours(2)),
              inputs={"orders": read("shop.orders", by="updated_at")})(lambda orders: never())
revenue = task("delta:shop.revenue", name="revenue", write=replace(), scope=Daily("order_date", start="2026-01-01"),
               inputs={"orders": read("shop.orders_copy", by="order_date")})(lambda orders: never())
best = task("shop.best", name="best", write=insert_new("id"), scope=Whole(),
            inputs={"revenue": read("shop.revenue"), "before": read("shop.best")})(lambda revenue, before: never())
"""

SHOWN = """\
1  orders_copy -> shop.orders_copy
     merge(region, id, newest_by=updated_at) on Since(updated_at, initial=2026-01-01T00:00:00Z, lag=2:00:00)
     reads shop.orders by updated_at
2  revenue -> delta:shop.revenue
     replace() on Daily(order_date, start=2026-01-01)
     reads shop.orders_copy by order_date  (from orders_copy)
3  best -> shop.best
     insert_new(id) on Whole()
     reads shop.revenue  (from revenue)
     reads shop.best  (its own target)
next: twice run --all --date DATE
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "twice.toml").write_text('project = "shop"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "jobs.py").write_text(PIPELINES)
    return tmp_path


def shown(project: Path) -> str:
    return SHOWN.replace("twice run", f"twice run --project {project}")


def ask(project: Path, *words: str) -> str:
    answer = CliRunner().invoke(app, ["graph", *words, "--project", str(project)])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_the_graph_lists_every_task_after_what_it_reads(project: Path) -> None:
    assert ask(project) == shown(project)


def test_the_graph_as_json_names_what_each_task_waits_for(project: Path) -> None:
    shown = json.loads(ask(project, "--output", "json"))
    assert shown["schema_version"] == 1
    assert [(node["task"], node["level"], node["after"]) for node in shown["tasks"]] == [
        ("orders_copy", 1, []),
        ("revenue", 2, ["orders_copy"]),
        ("best", 3, ["revenue"]),
    ]
    read = {"table": "shop.orders", "by": "updated_at", "task": None, "kind": "table", "watch": True}
    assert shown["tasks"][0]["inputs"] == [read]


def test_tags_are_shown_where_there_are_any(project: Path) -> None:
    tagged = PIPELINES.replace('name="revenue", ', 'name="revenue", tags=["finance", "daily"], ')
    (project / "pipelines" / "jobs.py").write_text(tagged)
    line = "     replace() on Daily(order_date, start=2026-01-01)"
    assert ask(project) == shown(project).replace(line, f"{line}  tag:finance  tag:daily")
    nodes = json.loads(ask(project, "--output", "json"))["tasks"]
    assert [(node["task"], node["tags"]) for node in nodes] == [
        ("orders_copy", []),
        ("revenue", ["finance", "daily"]),
        ("best", []),
    ]


def test_the_graph_as_a_drawing_has_one_name_for_each_table(project: Path) -> None:
    lines = ask(project, "--output", "mermaid").splitlines()
    assert lines[0] == "flowchart LR"
    assert '    table_shop_orders_copy[("shop.orders_copy")] --> task_revenue' in lines
    assert '    task_best["best<br/>insert_new(id)"] --> table_shop_best[("shop.best")]' in lines
    # A table is one box, whether or not its format was written before its name.
    assert '    task_revenue["revenue<br/>replace()"] --> table_shop_revenue[("shop.revenue")]' in lines


@pytest.mark.process
def test_the_graph_loads_no_engine_and_calls_no_task(project: Path) -> None:
    code = (
        "import sys; sys.argv = ['twice', 'graph', '--project', sys.argv[1]]\n"
        "from twice.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(project)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, shown(project)), done.stderr


def test_a_wrong_declaration_is_reported_as_json_too(project: Path) -> None:
    (project / "pipelines" / "more.py").write_text(PIPELINES)
    answer = CliRunner().invoke(app, ["graph", "--output", "json", "--project", str(project)])
    assert answer.exit_code == 2
    assert json.loads(answer.stdout)["error"]["code"] == "declaration"


def test_a_project_without_tasks_says_so(project: Path) -> None:
    (project / "pipelines" / "jobs.py").write_text("")
    assert ask(project) == "this project has no tasks yet\n"
