"""The fixture `twice_prove`, as a user's tests use it, on the session that is already running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from twice.core.results.proof import TrialResult
from twice.errors import UsageError
from twice.wiring.open_project import open_project

pytestmark = pytest.mark.timeout(200)
DAY = "2026-06-09"
PIPELINES = """
from pyspark.sql import functions as sf
from twice import Daily, replace, task

def days(run):
    return run.spark.range(3).selectExpr("id", "DATE'2026-06-09' AS day")

@task("shop.sound", scope=Daily("day", start="2026-01-01"), write=replace())
def sound(run):
    return days(run)

@task("shop.stamped", scope=Daily("day", start="2026-01-01"), write=replace())
def stamped(run):
    return days(run).withColumn("loaded_at", sf.current_timestamp())
"""


@pytest.fixture(scope="module")
def twice_project(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("myshop")
    (root / "pipelines").mkdir()
    (root / "pipelines" / "tasks.py").write_text(PIPELINES)
    (root / "twice.toml").write_text('project = "myshop"\n')
    with open_project(root) as opened:
        yield opened


@pytest.mark.long
@pytest.mark.twice_prove(scenarios=["twice"])
def test_a_sound_task_passes_with_the_scenarios_of_the_mark(twice_prove: Any, twice_project: Any) -> None:
    proof = twice_prove(twice_project.project.task("sound"), date=DAY)
    assert [(trial.scenario, trial.result) for trial in proof.trials] == [("twice", TrialResult.SAME)]
    assert not (twice_project.settings.warehouse / "shop").exists(), "the project's own tables stay as they were"


def test_a_task_that_differs_fails_its_test_with_the_rows_the_cause_and_the_fix(twice_prove: Any) -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        twice_prove("stamped", date=DAY, scenarios=["twice"])
    message = str(failed.value)
    assert message.startswith("stamped[2026-06-09] may not run twice")
    assert "3 rows differ in loaded_at" in message
    assert "likely: current_timestamp reaches column loaded_at" in message
    assert "fix: " in message
    assert "where id=0, day=2026-06-09" in message


def test_a_name_that_is_no_task_or_no_scenario_is_reported(twice_prove: Any) -> None:
    with pytest.raises(UsageError, match="there is no task"):
        twice_prove("sounds", date=DAY)
    with pytest.raises(UsageError, match="there is no scenario 'thirteen'"):
        twice_prove("sound", date=DAY, scenarios=["thirteen"])
