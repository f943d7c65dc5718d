"""A script is proved as a process of its own: run twice, and really killed. Without Spark in it, for speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from twice.core.results.proof import TrialResult
from twice.proof.jobs.script import Script, prove_script

from .conftest import Shop

pytestmark = [pytest.mark.kill, pytest.mark.timeout(300)]

HEAD = """
import sys, time, uuid
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq

place = Path(sys.argv[1]) / "plain" / "sums"
place.mkdir(parents=True, exist_ok=True)
"""
APPENDING = """
for region in range(12):
    pq.write_table(pa.table({"region": [region], "revenue": [10]}), place / f"part-{uuid.uuid4()}.parquet")
    time.sleep(0.15)
"""
REPLACING = """
rows = pa.table({"region": list(range(6)), "revenue": [10] * 6})
pq.write_table(rows, place / "_new.tmp")
time.sleep(0.5)
(place / "_new.tmp").replace(place / "part-0.parquet")
"""


def script(folder: Path, body: str, *arguments: str) -> Script:
    path = folder / "job.py"
    path.write_text(HEAD + body)
    return Script(path, arguments, ("plain.sums",), folder / "warehouse")


def test_a_script_that_appends_is_caught_run_again_and_killed(spark: Any, tmp_path: Path) -> None:
    again, killed = prove_script(spark, script(tmp_path, APPENDING, "{warehouse}")).trials
    assert (again.scenario, again.result, killed.scenario, killed.result) == (
        *("twice", TrialResult.CHANGED),
        *("kill", TrialResult.CHANGED),
    )
    assert again.difference is not None and killed.difference is not None
    assert (again.difference.added, again.difference.doubled) == (12, 12)
    assert 1 <= killed.difference.added < 12
    assert killed.reason.startswith("killed at ")
    assert again.difference.causes[0].why == "rows are added on each run"
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.long
def test_a_script_that_replaces_its_table_in_one_step_is_proved_though_it_is_killed(spark: Any, tmp_path: Path) -> None:
    proof = prove_script(spark, script(tmp_path, REPLACING, "{warehouse}"))
    assert proof.holds, proof
    assert proof.trials[1].reason.endswith(" of one run's time, then run again")


def test_a_script_with_no_place_to_write_is_not_run(shop: Shop, tmp_path: Path) -> None:
    path = script(tmp_path, APPENDING).path
    answer = shop.call("prove", "--script", str(path), "--table", "plain.sums", "--", "warehouse")
    assert answer.code == 2
    assert "the script does not know where to write, so it would write your own tables. Nothing was run." in answer.err


@pytest.mark.long
def test_a_script_that_fails_is_reported_with_its_last_line(spark: Any, shop: Shop, tmp_path: Path) -> None:
    path = script(tmp_path, "raise SystemExit('no orders today')").path
    answer = shop.call("prove", "--script", str(path), "--table", "plain.sums", "--", "{warehouse}")
    assert answer.code == 1
    assert (
        "the script failed with exit code 1: no orders today. Your tables are unchanged: it ran in a copy."
        in answer.err
    )
