"""A lost ledger is rebuilt from the targets, and a check says where the two differ."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.runtime.conftest import DAY, RuntimeSetup, revenue_task
from tests.runtime.run.test_since import Source, copied, copy_task, reason_of, run
from tests.runtime.run.test_since import source as source  # the fixture

from twice import Daily, append_once, call
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.found import FoundPublish
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.ledgers.ledger import Ledger
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.check import LedgerDifference, check
from twice.runtime.upkeep.rebuild_ledger import RebuiltRecords, rebuild_ledger
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender


def lose_the_ledger(runtime: RuntimeSetup, tmp_path: Path) -> None:
    runtime.ledger.close()
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    runtime.context = replace(runtime.context, ledger=Ledger.open(f"sqlite:///{tmp_path}/ledger.db", runtime.clock))


def test_after_the_ledger_is_lost_and_rebuilt_a_run_finds_its_slices_published(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.run(declared, kind="restate")
    runtime.run(declared, "2026-06-10")
    before = runtime.ledger.runs("revenue")
    lose_the_ledger(runtime, tmp_path)
    assert rebuild_ledger(runtime.context, None) == (RebuiltRecords("revenue", 2, 0),)
    after = runtime.ledger.runs("revenue")
    known = [(r.label, r.generation, r.attempt, r.intention, r.version) for r in after]
    assert known == [(r.label, r.generation, r.attempt, r.intention, r.version) for r in before]
    assert [r.generation for r in after] == [2, 1]
    assert check(runtime.context, None) == ()
    version = runtime.version
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.run(declared, "2026-06-10").outcome is Outcome.ALREADY
    assert runtime.version == version


def test_rebuilding_twice_or_over_a_whole_ledger_changes_nothing(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    before = runtime.ledger.runs()
    for _ in range(2):
        assert rebuild_ledger(runtime.context, None) == (RebuiltRecords("revenue", 1, 0),)
        assert runtime.ledger.runs() == before


def test_rebuilding_over_a_whole_ledger_sends_the_effect_of_a_run_that_landed_without_reporting_back(
    runtime: RuntimeSetup,
) -> None:
    sent: list[str] = []
    effect = call(lambda result, key: sent.append(result.slice), keyed=False, name="tell")
    declared = runtime.declare(replace(revenue_task(), effects=(effect,)))
    runtime.context = replace(runtime.context, senders={"call": CallSender()})
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        runtime.run(declared)
    runtime.clock.ahead = timedelta(hours=1)
    for _ in range(2):
        assert rebuild_ledger(runtime.context, None) == (RebuiltRecords("revenue", 1, 0),)
        run_ = runtime.ledger.run("revenue", "2026-06-09")
        assert run_ is not None and (run_.generation, run_.rows) == (1, 1)
    for _ in range(2):
        assert runtime.run(declared).outcome is Outcome.ALREADY
        assert sent == ["2026-06-09"]


def test_a_rebuilt_mark_goes_on_where_it_was(runtime: RuntimeSetup, source: Source, tmp_path: Path) -> None:
    declared = copy_task(runtime, append_once())
    run(runtime, declared)
    mark, rows = reason_of(runtime, declared), copied(runtime)
    lose_the_ledger(runtime, tmp_path)
    assert rebuild_ledger(runtime.context, None) == (RebuiltRecords("copy", 1, 0),)
    assert reason_of(runtime, declared) == mark
    assert run(runtime, declared).outcome is Outcome.NOTHING_NEW
    assert copied(runtime) == rows


def test_a_table_nobody_published_to_gives_nothing(runtime: RuntimeSetup) -> None:
    runtime.declare(revenue_task())
    assert rebuild_ledger(runtime.context, None) == (RebuiltRecords("revenue", 0, 0),)
    assert runtime.ledger.runs() == ()


def test_a_check_of_a_whole_ledger_finds_nothing(runtime: RuntimeSetup) -> None:
    runtime.run(runtime.declare(revenue_task()))
    assert check(runtime.context, None) == ()


def test_a_check_reports_what_the_table_holds_and_the_ledger_missed(runtime: RuntimeSetup, tmp_path: Path) -> None:
    runtime.run(runtime.declare(revenue_task()))
    lose_the_ledger(runtime, tmp_path)
    assert check(runtime.context, None) == (
        LedgerDifference(
            "revenue[2026-06-09]", "the table holds generation 1, the ledger knows of 0", "twice ledger rebuild"
        ),
    )


def test_a_check_reports_what_the_ledger_knows_and_the_table_lost(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.target._tables.clear()
    (found,) = check(runtime.context, None)
    assert (found.where, found.fix) == ("revenue[2026-06-09]", "run it: the next run goes by the table")
    assert "the ledger knows of generation 1, the table holds 0" in found.what
    runtime.put_orders((1, DAY, 10))
    runtime.run(declared)
    assert check(runtime.context, None) == ()


def test_a_check_reports_another_copy_of_the_table(runtime: RuntimeSetup, tmp_path: Path) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.ledger.forget("revenue", "2026-06-09")
    runtime.ledger.record_found("revenue", [FoundPublish("2026-06-09", 1, attempt="other", version=1)])
    (found,) = check(runtime.context, None)
    assert found.what.startswith("generation 1 is attempt ")
    assert "other's in the ledger" in found.what


@pytest.mark.parametrize("point", [Point.AFTER_STAGE, Point.AFTER_LOOK])
def test_a_check_reports_attempts_that_went_silent(runtime: RuntimeSetup, point: Point) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(point)):
        runtime.run(declared)
    assert check(runtime.context, None) == ()  # it may still be at work
    runtime.clock.ahead += timedelta(hours=1)
    (found,) = check(runtime.context, None)
    assert "stopped reporting" in found.what
    assert found.fix == "twice recover"


def test_a_check_changes_nothing(runtime: RuntimeSetup, tmp_path: Path) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        runtime.run(declared)
    before = (list(runtime.ledger.export()), runtime.version)
    found = check(runtime.context, None)
    assert [difference.fix for difference in found] == ["twice ledger rebuild"]
    assert (list(runtime.ledger.export()), runtime.version) == before


def test_what_gc_must_keep_a_check_does_not_send_to_gc_and_its_remedy_helps(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        runtime.run(declared)
    runtime.clock.ahead = timedelta(hours=1)
    recover(runtime.context, None)
    (kept,) = collect_garbage(runtime.context, None)
    assert (len(kept.kept), kept.slices) == (1, ("2026-06-09",))
    (found,) = check(runtime.context, None)
    remedy, _, why = found.fix.partition(": ")
    assert (remedy, why) == (
        "twice run revenue --date 2026-06-09",
        "until then its process, if it is still running, may publish them",
    )
    runtime.run(declared)
    assert check(runtime.context, None) == ()
    assert not runtime.leftovers


def test_where_a_run_would_find_the_slice_right_a_check_names_the_restatement(runtime: RuntimeSetup) -> None:
    """A run publishes nothing, so nothing passes what the dead attempt staged: the same advice would come for ever."""
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_STAGE)):
        runtime.run(declared, kind="restate")
    runtime.clock.ahead = timedelta(hours=1)
    recover(runtime.context, None)
    runtime.run(declared)
    (found,) = check(runtime.context, None)
    assert found.fix.startswith("twice restate revenue --date 2026-06-09: until then its process")
    runtime.run(declared, kind="restate")
    assert check(runtime.context, None) == ()
    assert not runtime.leftovers


def test_what_a_task_left_that_is_declared_no_more_is_reported_once(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        runtime.run(declared)
    runtime.clock.ahead = timedelta(hours=1)
    recover(runtime.context, None)
    runtime.context = replace(runtime.context, project=assemble("p", []))
    (found,) = check(runtime.context, None)
    assert found.fix == "twice gc"
    (one,) = collect_garbage(runtime.context, None)
    assert (one.task, len(one.given_up)) == ("revenue", 1)
    assert check(runtime.context, None) == ()


def test_what_was_staged_for_a_slice_that_the_scope_has_no_more_goes(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        runtime.run(declared)
    runtime.clock.ahead = timedelta(hours=1)
    recover(runtime.context, None)
    assert isinstance(declared.scope, Daily)
    runtime.declare(replace(declared, scope=replace(declared.scope, start="2026-07-01")))
    (found,) = check(runtime.context, None)
    assert found.fix == "twice gc"
    assert sum(one.files for one in collect_garbage(runtime.context, None)) > 0
    assert not runtime.leftovers
    assert check(runtime.context, None) == ()
