"""A lost ledger is rebuilt from the targets, and a check says where the two differ."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from twice import Daily, append_once, call
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.record import Adopted
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.ledgers.ledger import Ledger
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.check import LedgerDifference, check
from twice.runtime.upkeep.rebuild import Rebuilt, rebuild
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

from .conftest import DAY, Bench, revenue_task
from .test_since import Source, copied, copy_task, reason_of, run
from .test_since import source as source  # the fixture


def lose_the_ledger(bench: Bench, tmp_path: Path) -> None:
    bench.ledger.close()
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    bench.context = replace(bench.context, ledger=Ledger.open(f"sqlite:///{tmp_path}/ledger.db", bench.clock))


def test_after_the_ledger_is_lost_and_rebuilt_a_run_finds_its_slices_published(bench: Bench, tmp_path: Path) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    bench.run(declared, kind="restate")
    bench.run(declared, "2026-06-10")
    before = bench.ledger.runs("revenue")
    lose_the_ledger(bench, tmp_path)
    assert rebuild(bench.context, None) == (Rebuilt("revenue", 2, 0),)
    after = bench.ledger.runs("revenue")
    known = [(r.label, r.generation, r.attempt, r.intention, r.version) for r in after]
    assert known == [(r.label, r.generation, r.attempt, r.intention, r.version) for r in before]
    assert [r.generation for r in after] == [2, 1]
    assert check(bench.context, None) == ()
    version = bench.version
    assert bench.run(declared).outcome is Outcome.ALREADY
    assert bench.run(declared, "2026-06-10").outcome is Outcome.ALREADY
    assert bench.version == version


def test_rebuilding_twice_or_over_a_whole_ledger_changes_nothing(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    before = bench.ledger.runs()
    for _ in range(2):
        assert rebuild(bench.context, None) == (Rebuilt("revenue", 1, 0),)
        assert bench.ledger.runs() == before


def test_rebuilding_over_a_whole_ledger_sends_the_effect_of_a_run_that_landed_without_reporting_back(
    bench: Bench,
) -> None:
    sent: list[str] = []
    effect = call(lambda result, key: sent.append(result.slice), keyed=False, name="tell")
    declared = bench.declare(replace(revenue_task(), effects=(effect,)))
    bench.context = replace(bench.context, senders={"call": CallSender()})
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        bench.run(declared)
    bench.clock.ahead = timedelta(hours=1)
    for _ in range(2):
        assert rebuild(bench.context, None) == (Rebuilt("revenue", 1, 0),)
        run_ = bench.ledger.run("revenue", "2026-06-09")
        assert run_ is not None and (run_.generation, run_.rows) == (1, 1)
    for _ in range(2):
        assert bench.run(declared).outcome is Outcome.ALREADY
        assert sent == ["2026-06-09"]


def test_a_rebuilt_mark_goes_on_where_it_was(bench: Bench, source: Source, tmp_path: Path) -> None:
    declared = copy_task(bench, append_once())
    run(bench, declared)
    mark, rows = reason_of(bench, declared), copied(bench)
    lose_the_ledger(bench, tmp_path)
    assert rebuild(bench.context, None) == (Rebuilt("copy", 1, 0),)
    assert reason_of(bench, declared) == mark
    assert run(bench, declared).outcome is Outcome.NOTHING_NEW
    assert copied(bench) == rows


def test_a_table_nobody_published_to_gives_nothing(bench: Bench) -> None:
    bench.declare(revenue_task())
    assert rebuild(bench.context, None) == (Rebuilt("revenue", 0, 0),)
    assert bench.ledger.runs() == ()


def test_a_check_of_a_whole_ledger_finds_nothing(bench: Bench) -> None:
    bench.run(bench.declare(revenue_task()))
    assert check(bench.context, None) == ()


def test_a_check_reports_what_the_table_holds_and_the_ledger_missed(bench: Bench, tmp_path: Path) -> None:
    bench.run(bench.declare(revenue_task()))
    lose_the_ledger(bench, tmp_path)
    assert check(bench.context, None) == (
        LedgerDifference(
            "revenue[2026-06-09]", "the table holds generation 1, the ledger knows of 0", "twice ledger rebuild"
        ),
    )


def test_a_check_reports_what_the_ledger_knows_and_the_table_lost(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    bench.target._tables.clear()
    (found,) = check(bench.context, None)
    assert (found.where, found.fix) == ("revenue[2026-06-09]", "run it: the next run goes by the table")
    assert "the ledger knows of generation 1, the table holds 0" in found.what
    bench.put_orders((1, DAY, 10))
    bench.run(declared)
    assert check(bench.context, None) == ()


def test_a_check_reports_another_copy_of_the_table(bench: Bench, tmp_path: Path) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    bench.ledger.forget("revenue", "2026-06-09")
    bench.ledger.adopt("revenue", [Adopted("2026-06-09", 1, attempt="other", version=1)])
    (found,) = check(bench.context, None)
    assert found.what.startswith("generation 1 is attempt ")
    assert "other's in the ledger" in found.what


@pytest.mark.parametrize("point", [Point.AFTER_STAGE, Point.AFTER_LOOK])
def test_a_check_reports_attempts_that_went_silent(bench: Bench, point: Point) -> None:
    declared = bench.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(point)):
        bench.run(declared)
    assert check(bench.context, None) == ()  # it may still be at work
    bench.clock.ahead += timedelta(hours=1)
    (found,) = check(bench.context, None)
    assert "stopped reporting" in found.what
    assert found.fix == "twice recover"


def test_a_check_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    declared = bench.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        bench.run(declared)
    before = (list(bench.ledger.export()), bench.version)
    found = check(bench.context, None)
    assert [difference.fix for difference in found] == ["twice ledger rebuild"]
    assert (list(bench.ledger.export()), bench.version) == before


def test_what_gc_must_keep_a_check_does_not_send_to_gc_and_its_remedy_helps(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        bench.run(declared)
    bench.clock.ahead = timedelta(hours=1)
    recover(bench.context, None)
    (kept,) = collect_garbage(bench.context, None)
    assert (len(kept.kept), kept.slices) == (1, ("2026-06-09",))
    (found,) = check(bench.context, None)
    remedy, _, why = found.fix.partition(": ")
    assert (remedy, why) == (
        "twice run revenue --date 2026-06-09",
        "until then its process, if it is still running, may publish them",
    )
    bench.run(declared)
    assert check(bench.context, None) == ()
    assert not bench.leftovers


def test_where_a_run_would_find_the_slice_right_a_check_names_the_restatement(bench: Bench) -> None:
    """A run publishes nothing, so nothing passes what the dead attempt staged: the same advice would come for ever."""
    declared = bench.declare(revenue_task())
    bench.run(declared)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_STAGE)):
        bench.run(declared, kind="restate")
    bench.clock.ahead = timedelta(hours=1)
    recover(bench.context, None)
    bench.run(declared)
    (found,) = check(bench.context, None)
    assert found.fix.startswith("twice restate revenue --date 2026-06-09: until then its process")
    bench.run(declared, kind="restate")
    assert check(bench.context, None) == ()
    assert not bench.leftovers


def test_what_a_task_left_that_is_declared_no_more_is_reported_once(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        bench.run(declared)
    bench.clock.ahead = timedelta(hours=1)
    recover(bench.context, None)
    bench.context = replace(bench.context, project=assemble("p", []))
    (found,) = check(bench.context, None)
    assert found.fix == "twice gc"
    (one,) = collect_garbage(bench.context, None)
    assert (one.task, len(one.given_up)) == ("revenue", 1)
    assert check(bench.context, None) == ()


def test_what_was_staged_for_a_slice_that_the_scope_has_no_more_goes(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        bench.run(declared)
    bench.clock.ahead = timedelta(hours=1)
    recover(bench.context, None)
    assert isinstance(declared.scope, Daily)
    bench.declare(replace(declared, scope=replace(declared.scope, start="2026-07-01")))
    (found,) = check(bench.context, None)
    assert found.fix == "twice gc"
    assert sum(one.files for one in collect_garbage(bench.context, None)) > 0
    assert not bench.leftovers
    assert check(bench.context, None) == ()
