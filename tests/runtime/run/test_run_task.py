"""One run on the memory target: what is published, when not, and what a failure leaves behind."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, RuntimeSetup, ShiftedClock, revenue_task, summed

from twice import Outcome, Policy, Retry, audit
from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ledger.record import AttemptState, ClaimRequest
from twice.core.ports import FUNCTION, Column, Leaf
from twice.errors import (
    AuditFailed,
    EmptyRefused,
    InputMissing,
    LeaseLost,
    Nondeterministic,
    RowsOutsideSlice,
    RunError,
    SchemaDrift,
    SliceBusy,
    StageMismatch,
    UserCodeError,
)
from twice.runtime.holder import this_process
from twice.targets.memory.rows import Rows


def states(runtime: RuntimeSetup) -> list[str]:
    return [attempt.state.value for attempt in reversed(runtime.ledger.attempts("revenue"))]


def test_the_first_run_publishes_the_slice(runtime: RuntimeSetup) -> None:
    result = runtime.run(runtime.declare(revenue_task()))
    assert result.outcome is Outcome.PUBLISHED
    assert (result.slices[0].generation, result.slices[0].rows) == (1, 1)
    assert runtime.revenue == [(DAY, 15)]


def test_a_second_run_finds_it_published_and_commits_nothing(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    first = runtime.run(declared)
    version = runtime.version
    again = runtime.run(declared)
    assert again.outcome is Outcome.ALREADY
    assert again.why == "same code, same inputs"
    assert again.slices == first.slices
    assert runtime.version == version
    assert states(runtime) == ["published", "unchanged"]


def test_changed_inputs_are_published_as_the_next_generation(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.put_orders((1, DAY, 10), (2, DAY, 6), (3, NEXT, 7))
    result = runtime.run(declared)
    assert (result.outcome, result.why) == (Outcome.PUBLISHED, "its inputs changed")
    assert result.slices[0].generation == 2
    assert runtime.revenue == [(DAY, 16)]


def test_a_new_day_in_the_input_does_not_make_another_day_stale(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, NEXT, 700))
    assert runtime.run(declared).outcome is Outcome.ALREADY


def test_changed_code_is_published_again(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.code[0] = "v2"
    assert runtime.run(declared).why == "the code or its options changed"


@pytest.mark.parametrize(("rerun", "outcome"), [("never", Outcome.ALREADY), ("always", Outcome.PUBLISHED)])
def test_the_policy_says_when_a_published_slice_is_computed_again(
    runtime: RuntimeSetup, rerun: Any, outcome: Outcome
) -> None:
    declared = runtime.declare(revenue_task(policy=Policy(rerun=rerun)))
    runtime.run(declared)
    runtime.code[0] = "v2"
    assert runtime.run(declared).outcome is outcome


def test_restate_says_identical_or_changed(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    assert runtime.run(declared, kind="restate").outcome is Outcome.IDENTICAL
    runtime.put_orders((1, DAY, 99))
    assert runtime.run(declared, kind="restate").outcome is Outcome.CHANGED
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.ledger.run("revenue", "2026-06-09").generation == 3  # type: ignore[union-attr]


def test_other_slices_are_not_touched(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.run(declared, "2026-06-10")
    runtime.put_orders((1, DAY, 1))
    runtime.run(declared)
    assert runtime.revenue == [(DAY, 1), (NEXT, 7)]


def test_an_empty_result_empties_the_slice(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.put_orders((3, NEXT, 7))
    result = runtime.run(declared)
    assert (result.outcome, result.slices[0].rows) == (Outcome.PUBLISHED, 0)
    assert runtime.revenue == []


def test_an_empty_result_is_refused_where_the_task_says_so(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task(policy=Policy(empty="refuse")))
    runtime.run(declared)
    runtime.put_orders((3, NEXT, 7))
    with pytest.raises(EmptyRefused, match=r"revenue\[2026-06-09\]: the result is empty.*The table is unchanged"):
        runtime.run(declared)
    assert runtime.revenue == [(DAY, 15)]


def test_a_failed_audit_is_never_visible_and_leaves_no_staged_row(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task(audits=(audit.expression("revenue < 15"), audit.rows(at_most=0))))
    with pytest.raises(AuditFailed, match=r"audit rows\(at_most=0\) failed: 1 rows.*never visible; the table is unch"):
        runtime.run(declared)
    assert runtime.revenue == []
    attempt = runtime.ledger.attempts("revenue")[0]
    assert attempt.state is AttemptState.REJECTED
    assert attempt.discarded
    assert not runtime.leftovers


def test_a_first_run_that_was_rejected_binds_nobody(runtime: RuntimeSetup) -> None:
    """Its columns were wrong, and nobody has seen them: the corrected code is not refused for them."""

    def wrong(orders: Rows) -> Rows:
        columns = (Column("order_date", "date"), Column("revenue", "string"), Column("typo", "int"))
        return Rows(columns, tuple((day, str(amount), None) for _, day, amount in orders.rows))

    with pytest.raises(AuditFailed):
        runtime.run(runtime.declare(revenue_task(wrong, audits=(audit.not_null("typo"),))))
    assert runtime.version is None
    runtime.code[0] = "v2"
    assert runtime.run(runtime.declare(revenue_task())).outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 15)]
    assert not runtime.leftovers


def test_new_columns_of_a_rejected_run_are_not_in_the_table(runtime: RuntimeSetup) -> None:
    runtime.run(runtime.declare(revenue_task()))
    before = runtime.version

    def wider(orders: Rows) -> Rows:
        rows = tuple((*row, None) for row in summed(orders).rows)
        return Rows((*summed(orders).columns, Column("tax", "int")), rows)

    runtime.code[0] = "v2"
    declared = revenue_task(wider, audits=(audit.not_null("tax"),), policy=Policy(evolve=True))
    with pytest.raises(AuditFailed):
        runtime.run(runtime.declare(declared))
    assert runtime.version == before
    runtime.code[0] = "v1"
    assert runtime.run(runtime.declare(revenue_task()), "2026-06-10").outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 15), (NEXT, 7)]


def test_a_warning_audit_publishes_and_is_noted(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task(audits=(audit.rows(at_least=5, severity="warn"),)))
    result = runtime.run(declared)
    assert result.outcome is Outcome.PUBLISHED
    assert result.notes == ("audit rows(at_least=5) warns: 1 rows",)


def test_unique_and_custom_audits_read_the_stage(runtime: RuntimeSetup) -> None:
    def doubled(orders: Rows) -> Rows:
        found = summed(orders)
        return Rows(found.columns, found.rows * 2)

    twin = runtime.declare(revenue_task(doubled, audits=(audit.unique("order_date"),)))
    with pytest.raises(AuditFailed, match="1 of 2 rows repeat another's order_date"):
        runtime.run(twin)
    custom = audit.custom(lambda stage: f"saw {len(stage.rows)} rows", name="seen")
    with pytest.raises(AuditFailed, match="audit seen failed: saw 1 rows"):
        runtime.run(runtime.declare(revenue_task(audits=(custom,))))
    raising = audit.custom(lambda stage: 1 / 0, name="broken")
    with pytest.raises(UserCodeError, match="the audit broken raised ZeroDivisionError"):
        runtime.run(runtime.declare(revenue_task(audits=(raising,))))


def test_not_shrunk_compares_with_the_last_publish(runtime: RuntimeSetup) -> None:
    def each(orders: Rows) -> Rows:
        return orders

    declared = runtime.declare(revenue_task(each, audits=(audit.not_shrunk(to=0.6),)))
    runtime.run(declared)
    runtime.put_orders((1, DAY, 10))
    with pytest.raises(AuditFailed, match="1 rows, 2 before"):
        runtime.run(declared)


def test_user_code_that_raises_is_reported_with_its_place(runtime: RuntimeSetup) -> None:
    def broken(orders: Rows) -> Rows:
        raise ValueError("no rate for EUR")

    with pytest.raises(UserCodeError) as caught:
        runtime.run(runtime.declare(revenue_task(broken)))
    assert "revenue[2026-06-09]: the task's own code raised ValueError: no rate for EUR" in str(caught.value)
    assert "test_run_task.py:" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert states(runtime) == ["failed"]


def test_rows_outside_the_slice_are_refused(runtime: RuntimeSetup) -> None:
    def stray(orders: Rows) -> Rows:
        found = summed(orders)
        return Rows(found.columns, (*found.rows, (NEXT, 1)))

    with pytest.raises(RowsOutsideSlice, match="The table is unchanged"):
        runtime.run(runtime.declare(revenue_task(stray)))
    assert runtime.revenue == []


def test_a_missing_input_table_is_reported_before_anything_runs(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.target._tables.clear()
    with pytest.raises(InputMissing, match="the input table shop.orders does not exist"):
        runtime.run(declared)
    assert runtime.version is None


def test_schema_drift_is_refused_unless_the_task_may_evolve(runtime: RuntimeSetup) -> None:
    def wider(orders: Rows) -> Rows:
        found = summed(orders)
        from twice.core.ports import Column

        return Rows((*found.columns, Column("extra", "bigint")), tuple((*row, 1) for row in found.rows))

    runtime.run(runtime.declare(revenue_task()))
    with pytest.raises(SchemaDrift, match="extra"):
        runtime.run(runtime.declare(revenue_task(wider)), kind="restate")
    assert runtime.revenue == [(DAY, 15)]
    runtime.run(runtime.declare(revenue_task(wider, policy=Policy(evolve=True))), kind="restate")
    assert runtime.revenue == [(DAY, 15, 1)]


def test_a_slice_held_by_another_attempt_is_busy(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    held = runtime.ledger.claim(ClaimRequest("revenue", ["2026-06-09"], "other", "run", "host:1"), timedelta(minutes=5))
    with pytest.raises(SliceBusy, match=r"another attempt \(other, host:1\) is running this slice.*--wait"):
        runtime.run(declared)
    with pytest.raises(SliceBusy, match="still"):
        runtime.run(declared, wait=timedelta(seconds=0.3))
    runtime.ledger.close_attempt(held.attempt, AttemptState.FAILED)
    assert runtime.run(declared).outcome is Outcome.PUBLISHED


def test_a_holder_that_is_seen_to_be_gone_is_not_waited_for(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        started = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        holder = f"{this_process().partition(':')[0]}:{process.pid}:{started}"
        runtime.ledger.claim(ClaimRequest("revenue", ["2026-06-09"], "dead", "run", holder), timedelta(minutes=5))
        with pytest.raises(SliceBusy):
            runtime.run(declared)
        process.kill()
    assert runtime.run(declared).outcome is Outcome.PUBLISHED
    assert runtime.ledger.attempt("dead").state is AttemptState.ABANDONED  # type: ignore[union-attr]


def test_a_lease_taken_over_stops_the_slow_attempt_before_it_publishes(runtime: RuntimeSetup) -> None:
    def slow(orders: Rows) -> Rows:
        runtime.clock.ahead = timedelta(hours=1)
        taken = runtime.ledger.claim(
            ClaimRequest("revenue", ["2026-06-09"], "other", "run", "host:1"), timedelta(hours=3)
        )
        assert taken.attempt == "other"
        runtime.context.ledger.close_attempt(runtime.ledger.attempts("revenue")[1].id, AttemptState.ABANDONED)
        return summed(orders)

    with pytest.raises(LeaseLost):
        runtime.run(runtime.declare(revenue_task(slow)))
    assert runtime.revenue == []


class SleepingClock(ShiftedClock):
    """The process itself sleeps: its own clock moves on with the others."""

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()


def test_an_attempt_that_slept_past_its_lease_lets_go_though_nobody_has_closed_it(runtime: RuntimeSetup) -> None:
    clock = SleepingClock()
    runtime.context = replace(runtime.context, clock=clock)

    def slow(orders: Rows) -> Rows:
        runtime.clock.ahead = clock.ahead = timedelta(hours=1)
        runtime.ledger.claim(ClaimRequest("revenue", ["2026-06-09"], "other", "run", "host:1"), timedelta(hours=3))
        return summed(orders)

    with pytest.raises(LeaseLost, match="stopped reporting, and another one has taken the slice over"):
        runtime.run(runtime.declare(revenue_task(slow)))
    assert runtime.revenue == []


def test_rows_that_got_lost_between_the_count_and_the_stage_stop_the_run(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = runtime.target.stage

    def lossy(table: Any, frame: Rows, *rest: Any, **named: Any) -> Any:
        return stage(table, replace(frame, rows=frame.rows[1:]), *rest, **named)

    monkeypatch.setattr(runtime.target, "stage", lossy)
    with pytest.raises(StageMismatch, match="0 rows were staged, but 1 rows of the slice were computed"):
        runtime.run(runtime.declare(revenue_task(policy=Policy(retry=Retry(attempts=1)))))
    assert runtime.revenue == []
    assert not runtime.leftovers


def test_inputs_without_a_version_are_computed_again(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        type(runtime.context.engine), "leaves", lambda self, frame, before: (Leaf("view", "somewhere", None),)
    )
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    again = runtime.run(declared)
    assert (again.outcome, again.why) == (Outcome.PUBLISHED, "an input has no version to compare")


def test_an_unexpected_error_is_a_run_error_with_its_cause(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(runtime.target, "stage", no_space)
    with pytest.raises(RunError, match=r"revenue\[2026-06-09\]: OSError: No space left.*The table is unchanged"):
        runtime.run(runtime.declare(revenue_task()))
    assert states(runtime) == ["failed"]


def test_a_suspicious_plan_is_refused_unless_allowed(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    from twice.core.ports import Suspicion

    seen = (Suspicion("rand", ("revenue",), "another number on every run", "Derive it from the keys."),)
    monkeypatch.setattr(type(runtime.context.engine), "suspicions", lambda self, frame: seen)
    with pytest.raises(Nondeterministic, match=r"rand reaches column revenue: another number.*allow=\(\"rand\",\)"):
        runtime.run(runtime.declare(revenue_task()))
    assert runtime.run(runtime.declare(revenue_task(policy=Policy(allow=("rand",))))).outcome is Outcome.PUBLISHED


def test_what_the_guard_lets_pass_is_computed_on_every_run(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`current_date` is another day tomorrow: nothing shows that the same rows are published."""
    from twice.core.ports import Suspicion

    seen = (Suspicion("current_date", ("revenue",), "the time of the run", "Use the slice's date."),)
    monkeypatch.setattr(type(runtime.context.engine), "suspicions", lambda self, frame: seen)
    declared = runtime.declare(revenue_task(policy=Policy(allow=("current_date",))))
    runtime.run(declared)
    again = runtime.run(declared)
    assert (again.outcome, again.why) == (
        Outcome.PUBLISHED,
        "current_date, which the task allows, may differ on every run",
    )


def test_a_function_that_nobody_can_compare_is_a_note(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = Leaf(FUNCTION, "stamped reads the clock (time.time)", None)
    monkeypatch.setattr(type(runtime.context.engine), "outside", lambda self, frame, cuts, function: (asks,))
    result = runtime.run(runtime.declare(revenue_task()))
    assert result.notes == (
        "the function stamped reads the clock (time.time): nothing shows that a second run gives the same rows",
    )


def test_a_slow_attempt_does_not_give_itself_up_at_its_own_look(runtime: RuntimeSetup) -> None:
    """Found by the model check: its lease ran out before it looked, nobody took it over, and it settled itself."""
    declared = runtime.declare(revenue_task())

    def run_out(passed: Point | SendPoint) -> None:
        if passed is Point.AFTER_CLAIM:
            runtime.clock.ahead += timedelta(hours=1)

    with armed(run_out):
        assert runtime.run(declared).outcome is Outcome.PUBLISHED


def test_what_another_run_publishes_in_the_middle_of_a_look_is_not_forgotten(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the model check: the table was asked before the ledger, so what landed in between seemed lost."""
    declared = runtime.declare(revenue_task())
    published = runtime.target.published
    once: list[bool] = []

    def landing(table: Any, apps: Any) -> Any:
        found = published(table, apps)
        if apps and table.name == "shop.revenue" and not once:
            once.append(True)
            runtime.ledger.release(runtime.ledger.open_attempts()[0].id)
            assert runtime.run(declared).outcome is Outcome.PUBLISHED
        return found

    monkeypatch.setattr(runtime.target, "published", landing)
    with pytest.raises(LeaseLost):
        runtime.run(declared)
    run = runtime.ledger.run("revenue", "2026-06-09")
    assert run is not None
    assert (run.generation, run.rows) == (1, 1)
