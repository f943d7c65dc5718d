"""adopt: tables that were made elsewhere, taken as they are or rewritten, and days declared published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, REVENUE, RuntimeSetup, revenue_task, summed

from twice import Daily, Hourly, Since, Whole, append_once, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column, Shape
from twice.core.project.project import assemble
from twice.core.results.run import Outcome, RunRequest
from twice.core.slice import WHOLE
from twice.core.table.rebuild import side_table
from twice.core.table.token import CommitNote, token_name
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, WritePlan
from twice.errors import DeclarationError, LayoutDiffers, SchemaDrift, Superseded, TableChanged, TableTaken, UsageError
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.table.side_table import make_side, side_note
from twice.runtime.upkeep import adopt as adopting
from twice.runtime.upkeep.adopt import Adoption, AdoptRequest, adopt
from twice.runtime.upkeep.examine import describe, examine
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.targets.memory.rows import Rows

COLUMNS = (Column("order_date", "date"), Column("revenue", "bigint"))
ROWS = ((DAY, 1500), (NEXT, 700))
RANGE = "2026-06-09..2026-06-10"


def made_elsewhere(runtime: RuntimeSetup, partitioned: bool, columns: Any = COLUMNS, rows: Any = ROWS) -> None:
    """A table with other rows than the task would compute, and no token of ours."""
    layout = Layout(Daily("order_date", start="2026-01-01").held_in) if partitioned else Layout()
    into = runtime.target.prepare(REVENUE, Shape(columns), layout, False)
    plan = WritePlan(AppendRows((WHOLE,)), (WHOLE,), ("other",))
    staged = runtime.target.stage(REVENUE, Rows(columns, rows), plan, "other", into=into)
    runtime.target.commit(staged, {"other": 0}, CommitNote("other", "run", {"other": 1}))


def adopted(
    runtime: RuntimeSetup, published: str | None = RANGE, lay_out: bool = False, declared: Any = None
) -> Adoption:
    declared = declared or runtime.declare(revenue_task())
    return adopt(runtime.context, declared, AdoptRequest("ana", "from the old job", published, lay_out))


def test_a_table_that_fits_is_taken_as_it_is_and_its_days_are_not_computed_again(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    declared = runtime.declare(revenue_task())
    found = examine(runtime.context, declared, RANGE)
    assert describe(found) == "takes the table as it is, and declares 2026-06-09, 2026-06-10 published as they are"
    done = adopted(runtime)
    assert (done.published, done.laid_out, done.rows) == (("2026-06-09", "2026-06-10"), False, 2)
    result = runtime.run(declared)
    assert result.outcome is Outcome.ALREADY
    assert result.why.startswith("adopted: it was there before twice")
    assert runtime.revenue == sorted(ROWS)
    run = runtime.ledger.run("revenue", "2026-06-09")
    (adopter,) = (each for each in runtime.ledger.attempts("revenue") if each.kind == "adopt")
    assert run is not None
    assert (run.generation, run.attempt) == (1, adopter.id)
    assert run.intention is not None and run.intention.adopted


def test_an_adopted_day_is_computed_again_by_a_restatement_alone(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    declared = runtime.declare(revenue_task())
    adopted(runtime)
    runtime.put_orders((1, DAY, 11))
    runtime.code[0] = "v2"
    day = Daily("order_date", start="2026-01-01").slice_of("2026-06-09")
    statuses = slice_statuses(runtime.context, declared, (day,), None)
    assert [each.status for each in statuses] == ["published"]
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.run(declared, kind="restate").outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 11), (NEXT, 700)]


def test_days_that_are_not_declared_are_computed_by_their_next_run(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    declared = runtime.declare(revenue_task())
    adopted(runtime, "2026-06-09")
    assert runtime.run(declared, "2026-06-10").outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 1500), (NEXT, 7)]


def test_another_layout_is_explained_and_laid_out_again_only_if_asked(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    declared = runtime.declare(revenue_task())
    with pytest.raises(LayoutDiffers, match="is not partitioned") as refused:
        runtime.run(declared)
    assert "twice adopt shop.revenue --task" in refused.value.fix
    with pytest.raises(UsageError, match="is not partitioned") as asked:
        adopted(runtime)
    assert "Let twice rewrite its 2 rows with the right partitioning, in one commit: add --lay-out" in asked.value.fix
    assert "rewrites its 2 rows" in describe(examine(runtime.context, declared, RANGE))
    before = runtime.version
    assert before is not None
    done = adopted(runtime, lay_out=True)
    assert (done.laid_out, done.version) == (True, before + 1)
    assert runtime.revenue == sorted(ROWS)
    assert runtime.target.published(side_table(REVENUE), ()).version is None
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.run(declared, "2026-06-10", kind="restate").outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 1500), (NEXT, 7)]


@pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
@pytest.mark.parametrize("lay_out", [False, True])
def test_an_adoption_that_dies_is_ended_by_the_next_one(runtime: RuntimeSetup, lay_out: bool, point: Point) -> None:
    made_elsewhere(runtime, partitioned=not lay_out)
    declared = runtime.declare(revenue_task())
    with armed(crash_at(point)), pytest.raises(Crash):
        adopted(runtime, lay_out=lay_out)
    left = runtime.target.published(side_table(REVENUE), ()).version
    assert (left is not None) == (lay_out and point is not Point.IN_STAGE and point is not Point.BEFORE_COMMIT)
    adopted(runtime, lay_out=lay_out)
    assert runtime.target.published(side_table(REVENUE), ()).version is None
    assert runtime.revenue == sorted(ROWS)
    assert runtime.run(declared).outcome is Outcome.ALREADY
    name = token_name("p", "revenue", "2026-06-09")
    assert runtime.target.published(REVENUE, [name]).generations[name] == 1


@pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
def test_an_adoption_that_dies_while_it_exchanges_the_table_leaves_nothing_behind_the_next_one(
    runtime: RuntimeSetup, point: Point
) -> None:
    made_elsewhere(runtime, partitioned=False)
    declared, passed = runtime.declare(revenue_task()), list[int]()
    attempts: list[str] = []
    stage = runtime.target.stage

    def staging(table: Any, frame: Any, plan: Any, attempt: str, **named: Any) -> Any:
        attempts.append(attempt)
        return stage(table, frame, plan, attempt, **named)

    def die_the_second_time(here: Any) -> None:
        if here is point:
            passed.append(1)
            if len(passed) == 2:
                raise Crash(point.value)

    runtime.target.stage = staging  # type: ignore[method-assign]
    with armed(die_the_second_time), pytest.raises(Crash):
        adopted(runtime, lay_out=True)
    assert runtime.target.published(side_table(REVENUE), ()).version is not None
    adopted(runtime, lay_out=True)
    assert runtime.target.published(side_table(REVENUE), ()).version is None
    assert [name for each in attempts for name in runtime.target.leftovers(REVENUE, each)] == []
    assert runtime.run(declared).outcome is Outcome.ALREADY


def test_a_table_beside_it_that_is_not_the_tasks_is_neither_filled_nor_dropped(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    side = side_table(REVENUE)
    runtime.put(side, Rows(COLUMNS, ((DAY, 42),)))
    with pytest.raises(DeclarationError, match="is not a table that this task filled beside its own"):
        adopted(runtime, lay_out=True)
    assert runtime.target.read(side).rows == ((DAY, 42),)
    assert runtime.revenue == sorted(ROWS)


def test_a_rebuild_that_is_under_way_is_not_thrown_away(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    declared, side = runtime.declare(revenue_task()), side_table(REVENUE)
    into = runtime.target.prepare(side, Shape(COLUMNS), Layout(), False)
    make_side(
        runtime.context, declared, runtime.target, into, side_note(runtime.context, declared, "rebuild", "a", "v1")
    )
    with pytest.raises(UsageError, match=r"shop.revenue__rebuild is being filled by a rebuild of revenue") as refused:
        adopted(runtime, lay_out=True)
    assert "twice rebuild revenue --abandon" in refused.value.fix
    assert runtime.target.published(side, ()).version is not None


def test_a_table_with_slices_of_the_tasks_former_cut_is_laid_out_again(runtime: RuntimeSetup) -> None:
    whole = task(
        "shop.revenue", scope=Whole(), inputs={"orders": read("shop.orders")}, write=replace_rows(), name="revenue"
    )(summed)
    runtime.declare(whole)
    run_task(runtime.context, whole, (whole.scope.only,), RunRequest())  # type: ignore[union-attr]
    held = runtime.revenue
    declared = runtime.declare(revenue_task())
    with pytest.raises(LayoutDiffers):
        runtime.run(declared)
    done = adopted(runtime, lay_out=True)
    assert (done.laid_out, done.published) == (True, ("2026-06-09", "2026-06-10"))
    assert runtime.revenue == held
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert adopted(runtime).published == ()


def test_days_that_are_declared_already_do_not_stop_it_from_being_laid_out(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    merged = task(
        "shop.revenue",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=merge("order_date", order="any"),
        name="revenue",
    )(summed)
    assert adopted(runtime, "2026-06-09", declared=runtime.declare(merged)).published == ("2026-06-09",)
    done = adopted(runtime, lay_out=True, declared=runtime.declare(revenue_task()))
    assert (done.laid_out, done.published, done.already) == (True, ("2026-06-10",), ("2026-06-09",))
    assert runtime.revenue == sorted(ROWS)


def between_look_and_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    stage = adopting._stage

    def staged(*given: Any) -> Any:
        happens()
        return stage(*given)

    monkeypatch.setattr(adopting, "_stage", staged)


@pytest.mark.parametrize("lay_out", [False, True])
def test_a_day_published_after_the_look_is_not_declared_published(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch, lay_out: bool
) -> None:
    """By another task, which knows nothing of this one."""
    made_elsewhere(runtime, partitioned=not lay_out)
    other = replace(revenue_task(), name="other")
    if lay_out:
        other = replace(other, write=merge("order_date", order="any"))
    elsewhere = replace(runtime.context, project=assemble("p", [other]))
    slices = (other.scope.slice_of("2026-06-09"),)  # type: ignore[union-attr]
    between_look_and_commit(monkeypatch, lambda: run_task(elsewhere, other, slices, RunRequest()))
    with pytest.raises(TableChanged, match=r"others wrote to shop.revenue after it was looked at") as refused:
        adopted(runtime, lay_out=lay_out)
    assert refused.value.now == "It is not adopted."
    name = token_name("p", "revenue", "2026-06-09")
    assert runtime.target.published(REVENUE, [name]).generations[name] == 0


def test_what_was_published_while_it_was_adopted_is_named(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_elsewhere(runtime, partitioned=True)
    declared = runtime.declare(revenue_task())
    between_look_and_commit(monkeypatch, lambda: runtime.run(declared, "2026-06-10"))
    with pytest.raises(Superseded, match="2026-06-10 was published while it was adopted"):
        adopted(runtime)


def test_a_first_publish_of_another_task_that_no_token_shows_is_seen_after_the_commit(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a target sees no change of rows in it, such as a day that stays empty."""
    made_elsewhere(runtime, partitioned=True)
    other = replace(revenue_task(audits=()), name="other")
    elsewhere = replace(runtime.context, project=assemble("p", [other]))
    slices = (other.scope.slice_of("2026-06-09"),)  # type: ignore[union-attr]
    declare = adopting._declare

    def declared_then_published(*given: Any) -> int:
        version = declare(*given)
        revenue = runtime.declare(revenue_task())
        monkeypatch.setattr("twice.runtime.table.settle.refuse_taken", lambda *_: None)
        run_task(elsewhere, other, slices, RunRequest())
        monkeypatch.undo()
        runtime.declare(revenue)
        return version

    monkeypatch.setattr(adopting, "_declare", declared_then_published)
    with pytest.raises(TableTaken, match="while it was adopted, another task published to it") as refused:
        adopted(runtime)
    assert refused.value.now == "The table is adopted, and holds slices of both."


@pytest.mark.parametrize("how", [Crash, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("lay_out", [False, True])
def test_an_adoption_that_ends_anywhere_is_ended_by_the_next_one(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch, lay_out: bool, how: type[BaseException]
) -> None:
    """At the first point it passes, then at the second, and so on. A kill tidies nothing up, not even a side table."""
    made_elsewhere(runtime, partitioned=not lay_out)
    declared, dead = runtime.declare(revenue_task()), list[int]()
    drops = runtime.target.drop_side
    monkeypatch.setattr(runtime.target, "drop_side", lambda *given: None if dead else drops(*given))
    for passes in range(20):
        left = [passes]

        def end(_: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                dead.extend([1] if how is Crash else [])
                raise how("here")

        try:
            with armed(end):
                adopted(runtime, lay_out=lay_out)
        except (Crash, KeyboardInterrupt, RuntimeError):
            assert left[0] < 0
            assert runtime.revenue == sorted(ROWS)
        dead.clear()
        if left[0] >= 0:
            break
    assert passes > 1
    assert runtime.target.published(side_table(REVENUE), ()).version is None
    assert not [key for key in runtime.target._staged if runtime.target.leftovers(TableName(key[0]), key[1])]
    for day in ("2026-06-09", "2026-06-10"):
        assert runtime.run(declared, day).why.startswith("adopted")
    assert runtime.revenue == sorted(ROWS)


def test_rows_that_others_add_while_it_is_laid_out_stop_it(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    runtime.declare(revenue_task())
    added: list[int] = []

    def others(point: Any) -> None:
        if point is Point.AFTER_COMMIT and not added:  # the copy is made
            added.append(1)
            held = runtime.target._tables[REVENUE.name]
            held.versions.append(replace(held.latest[1], note=None))

    with armed(others), pytest.raises(TableChanged):
        adopted(runtime, lay_out=True)
    assert runtime.target.published(side_table(REVENUE), ()).version is None
    adopted(runtime, lay_out=True)


def test_adopting_again_declares_what_is_not_declared_yet(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    adopted(runtime, "2026-06-09")
    again = adopted(runtime)
    assert (again.published, again.already) == (("2026-06-10",), ("2026-06-09",))
    nothing = adopted(runtime)
    assert (nothing.version, nothing.published) == (None, ())


def test_days_without_rows_are_named(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    found = examine(runtime.context, runtime.declare(revenue_task()), "2026-06-08..2026-06-10")
    assert found.empty == ("2026-06-08",)
    assert "1 of them has no rows" in describe(found)


def test_a_lost_ledger_learns_from_the_table_that_days_were_adopted(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    declared = runtime.declare(revenue_task())
    adopted(runtime)
    runtime.ledger.forget("revenue", "2026-06-09")
    rebuild_ledger(runtime.context, None)
    assert runtime.run(declared).outcome is Outcome.ALREADY
    runtime.ledger.forget("revenue", "2026-06-10")
    assert runtime.run(declared, "2026-06-10").outcome is Outcome.ALREADY


def test_who_adopted_it_and_why_is_kept(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=True)
    adopted(runtime)
    (attempt,) = runtime.ledger.attempts("revenue")
    assert (attempt.kind, attempt.why) == (
        "adopt",
        "shop.revenue adopted by ana (2 slices declared published): from the old job",
    )


def test_columns_that_have_no_place_in_the_result_are_refused(runtime: RuntimeSetup) -> None:
    more = (*COLUMNS, Column("note", "string"))
    made_elsewhere(runtime, partitioned=False, columns=more, rows=tuple((*row, "x") for row in ROWS))
    with pytest.raises(SchemaDrift, match=r"note \(string\) is missing"):
        adopted(runtime, lay_out=True)
    assert len(runtime.target.read(REVENUE).columns) == 3


def test_a_table_without_the_slice_column_gets_it_with_its_new_layout(runtime: RuntimeSetup) -> None:
    columns = (Column("at", "timestamp"), Column("n", "bigint"))
    hours = [datetime(2026, 6, 9, hour, 30, tzinfo=timezone.utc) for hour in (1, 2)]
    runtime.put(TableName("shop.clicks"), Rows(columns, ((hours[0], 9),)))
    made_elsewhere(runtime, partitioned=False, columns=columns, rows=tuple((hour, 1) for hour in hours))
    declared = task(
        "shop.revenue",
        scope=Hourly("at", start="2026-06-09T00"),
        inputs={"clicks": read("shop.clicks", by="at")},
        write=replace_rows(),
        name="revenue",
    )(lambda clicks: clicks)
    done = adopted(runtime, "2026-06-09T02", lay_out=True, declared=runtime.declare(declared))
    assert (done.laid_out, done.published) == (True, ("2026-06-09T02",))
    assert [column.name for column in runtime.target.read(REVENUE).columns][-1].endswith("hour")
    assert runtime.run(declared, "2026-06-09T02").outcome is Outcome.ALREADY
    assert runtime.run(declared, "2026-06-09T01").outcome is Outcome.PUBLISHED
    assert [row[1] for row in runtime.revenue] == [9, 1]


def test_what_was_appended_by_an_older_job_is_not_appended_again(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    declared = task(
        "shop.revenue",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=append_once(),
        name="revenue",
    )(summed)
    runtime.declare(declared)
    adopted(runtime, "2026-06-09", declared=declared)
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.run(declared, "2026-06-10").outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 1500), (NEXT, 7), (NEXT, 700)]


def test_an_incremental_task_has_no_slices_to_declare(runtime: RuntimeSetup) -> None:
    made_elsewhere(runtime, partitioned=False)
    write = merge("order_date", newest_by="order_id")
    scope = Since("order_id", initial=0)
    source = {"orders": read("shop.orders", by="order_id")}
    declared = task("shop.revenue", scope=scope, inputs=source, write=write, name="revenue")(lambda orders: orders)
    with pytest.raises(UsageError, match="no slices to declare published"):
        adopted(runtime, declared=runtime.declare(declared))


def test_a_table_that_is_missing_is_not_adopted(runtime: RuntimeSetup) -> None:
    with pytest.raises(UsageError, match=r"there is no table shop.revenue, so there is nothing to adopt"):
        adopted(runtime)
    assert runtime.target.published(TableName("shop.revenue"), ()).version is None
