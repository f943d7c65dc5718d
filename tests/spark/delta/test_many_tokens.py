"""A table with more tokens than Delta lists in the checksum files beside its commits: the checkpoint and the commits
since say the same as Delta's job over the log, and no job is started for it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.target_suite import COLUMNS, DAY, NEXT, REVENUE, commit, plan_of, prepare, publish, sale

from twice.core.ports import Lost
from twice.engine.session.session import run_session
from twice.targets.active_session import as_active_session
from twice.targets.delta.log.commits import Commits, LocalLogFiles
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.snapshot import tokens_in
from twice.targets.delta.reader import DeltaReader

MANY = 5_200


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    made = DeltaHarness(spark, tmp_path, internal=True)
    target = made.target()
    prepare(target)
    publish(made, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
    _grow_old(spark, made)
    publish(made, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="b")
    return made


def _grow_old(spark: Any, harness: DeltaHarness) -> None:
    """One commit with all of them, in Delta's published format, and a checkpoint."""
    path = harness.locate(REVENUE)
    log = Log(run_session(spark), path)
    table = log.table()
    assert table is not None
    info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE", "txnId": "old"}}
    tokens = [{"txn": {"appId": f"twice/p/old/{at}", "version": at + 1, "lastUpdated": 1}} for at in range(MANY)]
    lines = "\n".join(json.dumps(each, separators=(",", ":")) for each in (info, *tokens))
    (Path(path) / "_delta_log" / f"{table.version + 1:020d}.json").write_text(lines + "\n")
    with as_active_session(log.session):
        log.table()
        log._log.checkpoint()


def _by_job(spark: Any, harness: DeltaHarness, names: list[str]) -> Mapping[str, int]:
    session = run_session(spark)
    with as_active_session(session):
        found = tokens_in(session, Log(session, harness.locate(REVENUE))._fresh(), names)
    return {name: found.get(name, 0) for name in names}


def _jobs(spark: Any) -> int:
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


def test_they_are_the_same_by_the_checkpoint_and_by_delta_s_job(spark: Any, harness: DeltaHarness) -> None:
    names = [*plan_of(DAY, NEXT).token_names, "twice/p/old/0", f"twice/p/old/{MANY - 1}", "twice/p/old/none"]
    folder = Path(harness.locate(REVENUE)) / "_delta_log"
    newest = max(int(path.stem) for path in folder.glob("[0-9]*.json"))
    checksum = Commits(lambda: LocalLogFiles(folder)).checksum(newest)
    assert checksum and "setTransactions" not in checksum, "Delta lists them: this test shows nothing"
    before = _jobs(spark)
    found = harness.target().published(REVENUE, names).generations
    assert _jobs(spark) == before
    assert found == _by_job(spark, harness, names) and list(found.values()) == [1, 1, 1, MANY, 0]
    assert DeltaReader(harness.locate).published(REVENUE, names).generations == found


def test_a_token_that_another_moved_since_the_checkpoint_loses_the_commit(spark: Any, harness: DeltaHarness) -> None:
    target: Any = harness.target()
    plan = plan_of(NEXT)
    (app,) = plan.token_names
    frame = harness.frame(target, COLUMNS, [sale("2026-06-10", "eu", "3.00")])
    staged = target.stage(REVENUE, frame, plan, "mine")
    publish(harness, harness.target(), [sale("2026-06-10", "eu", "2.00")], NEXT, attempt="theirs")
    assert isinstance(commit(target, staged, {app: 1}), Lost)
