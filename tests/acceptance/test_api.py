"""The Python API as a notebook or an orchestrator's worker uses it: in one process, on a session that runs already."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import twice
from twice import Outcome, TwiceError
from twice.errors import UsageError

from .conftest import REVENUE, Shop

DAY, NEXT, AFTER = "2026-06-09", "2026-06-10", "2026-06-11"


def test_the_verbs_of_the_command_line_in_python(stocked: Shop, spark: Any) -> None:
    assert twice.session(project=stocked.root).sparkContext is spark.sparkContext
    planned = twice.plan("revenue_daily", date=DAY, project=stocked.root)
    assert planned.compute and planned.label == DAY
    first = twice.run("revenue_daily", date=DAY, project=stocked.root)
    assert (first.outcome, first.earlier) == (Outcome.PUBLISHED, ())
    both = twice.run("revenue_daily", interval=(DAY, AFTER), project=stocked.root)  # the end is not included
    assert repr(both).startswith(f"<RunResult revenue_daily[{DAY}..{NEXT}]: 2 runs, ")
    assert (both.outcome, both.slices[0].label) == (Outcome.PUBLISHED, NEXT)
    assert [(each.outcome, each.slices[0].label) for each in both.earlier] == [(Outcome.ALREADY, DAY)]
    assert twice.restate("revenue_daily", date=DAY, project=stocked.root).outcome is Outcome.IDENTICAL
    assert twice.retry("revenue_daily", project=stocked.root) == ()
    assert twice.recover(project=stocked.root) == ()
    found = twice.status("revenue_daily", project=stocked.root)
    assert [run.label for run in found.runs] == [DAY, NEXT]
    assert repr(found) == "<Status 2 slices, 0 failed, 0 stale>"
    kinds = [each.kind for each in twice.history("revenue_daily", date=DAY, project=stocked.root)]
    assert kinds == ["restate", "run", "run"]
    chain = twice.run_all(date=NEXT, project=stocked.root)
    assert [(each.task, each.outcome) for each in chain] == [("revenue_daily", Outcome.ALREADY)]
    with pytest.raises(twice.errors.AuditFailed):  # the day has no orders
        twice.run_all(date=AFTER, project=stocked.root)
    week = twice.backfill("revenue_daily", DAY, NEXT, dry_run=True, project=stocked.root)
    assert str(week).endswith(f"revenue_daily[{DAY}..{NEXT}], both included: plan only, not started, 0 slices to do")
    days = twice.backfill("revenue_daily", DAY, AFTER, project=stocked.root)  # both are included; it has no orders
    assert [(each.label, (each.error or {})["code"]) for each in days.failed] == [(AFTER, "audit-failed")]
    with pytest.raises(TwiceError) as failed:
        twice.retry("revenue_daily", project=stocked.root)
    assert f'See twice.history("revenue_daily", project="{stocked.root}")' in str(failed.value)


def test_a_cell_of_a_notebook_is_never_run_as_the_file_says(
    stocked: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stocked.root)
    monkeypatch.syspath_prepend(str(stocked.root))
    cell: dict[str, Any] = {}
    exec(compile(REVENUE.replace('F.sum("amount")', 'F.max("amount")'), "<cell>", "exec"), cell)
    changed = cell["revenue_daily"]
    with pytest.raises(UsageError, match=r"not the same as the one in pipelines/revenue.py \(what differs: code\)"):
        twice.run(changed, date=DAY)
    rows = changed.preview(DAY).orderBy("region").collect()
    assert [str(row.revenue) for row in rows] == ["10.00", "1.00"]
    assert not (stocked.warehouse / "shop" / "revenue_daily").exists()

    stocked.write("pipelines/revenue.py", REVENUE.replace('F.sum("amount")', 'F.max("amount")'))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipelines"]:
        del sys.modules[name]
    imported = importlib.import_module("pipelines.revenue").revenue_daily
    assert twice.run(imported, date=DAY).outcome is Outcome.PUBLISHED
    table = spark.read.format("delta").load(str(stocked.warehouse / "shop" / "revenue_daily")).orderBy("region")
    assert [str(row.revenue) for row in table.collect()] == ["10.00", "1.00"]
