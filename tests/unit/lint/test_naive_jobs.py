"""The shop's naive jobs: the linter warns of each of them; the declared jobs are clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.lint.run import lint_paths
from twice.lint.settings import LintSettings

SHOP = Path(__file__).parents[3] / "examples" / "worldshop"
FOUND = {
    "daily_customer_summary": {"TW401"},
    "daily_inventory_adjustments": {"TW201", "TW601"},
    "dim_products": {"TW603"},
    "events_raw": {"TW301"},
    "fact_events": {"TW603"},  # not its incident: no rule knows that a check comes after the write
    "orders_copy": {"TW301"},
    "revenue_daily": {"TW301"},
    "stock_levels": {"TW506"},
}


def codes_in(path: Path) -> set[str]:
    return {finding.code for finding in lint_paths([path], LintSettings(cache=False, jobs=1)).findings}


@pytest.mark.parametrize("job", FOUND)
def test_the_linter_warns_of_every_naive_job(job: str) -> None:
    assert codes_in(SHOP / "naive" / f"{job}.py") == FOUND[job]


def test_every_naive_job_is_looked_at_and_describes_its_incident() -> None:
    jobs = {path.stem: path.read_text() for path in (SHOP / "naive").glob("*.py")}
    with_incident = {name for name, text in jobs.items() if "**The incident: " in text and "\nWhy: " in text}
    assert with_incident == {*FOUND, "payouts"}  # it posts by urllib, which no rule takes for an effect yet
    assert set(jobs) - with_incident == {"__init__", "command", "audit_exercise"}


def test_the_declared_jobs_are_clean() -> None:
    assert codes_in(SHOP / "pipelines") == set()
