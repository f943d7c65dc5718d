"""The Python API as a notebook or an orchestrator's worker uses it: in one process, on a session that runs already."""

from __future__ import annotations

from typing import Any

import twice
from twice import Outcome

from .conftest import Shop

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
    week = twice.backfill("revenue_daily", DAY, NEXT, dry_run=True, project=stocked.root)
    assert str(week).endswith(f"revenue_daily[{DAY}..{NEXT}], both included: plan only, not started, 0 slices to do")
    days = twice.backfill("revenue_daily", DAY, AFTER, project=stocked.root)  # both are included
    assert ([each.label for each in days.done], days.complete) == ([AFTER], True)
