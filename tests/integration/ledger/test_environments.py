"""One ledger, several environments and projects: each sees its own records, and none of another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete
from tests.processes.ledger_processes import MINUTE
from tests.runtime.conftest import DAY as MOVED_DAY
from tests.runtime.conftest import RuntimeSetup, ShiftedClock, make_runtime, revenue_task, summed
from tests.runtime.starting import start

from twice import PublishedSlice, call
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ledger.environment import EnvironmentDrop, EnvironmentRecords, Unfinished
from twice.core.ledger.found import FoundPublish
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.outbox import EffectState, PublishedGeneration, prepare
from twice.core.ledger.record import AcceptedSlice, AttemptState, Claim, ClaimRequest, Facts
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.results.proof import Proof
from twice.core.results.run import Outcome
from twice.core.table.token import Intention
from twice.core.task import TableName, Task
from twice.ledgers.database.own_rows import OwnRows, tasks
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.worker import Stop, work
from twice.runtime.effects.delivery import drain, render_released
from twice.runtime.effects.send import EffectDecision, delivery_of, resolve
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.check import check
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

S = EffectState
DAY, NEXT = "2026-06-09", "2026-06-10"
TABLE = "delta:shop.revenue"
NEVER_GONE = "elsewhere:1:1"


@dataclass
class Side:
    """One environment: its own tables, its own receiver, and the ledger it shares."""

    runtime: RuntimeSetup
    task: Task
    received: list[tuple[PublishedSlice, str]]

    @property
    def ledger(self) -> Ledger:
        return self.runtime.ledger

    def run(self, day: str = DAY, **options: Any) -> Any:
        return self.runtime.run(self.task, day, **options)


Open = Callable[..., Side]


@pytest.fixture
def opened(either: str, tmp_path: Path) -> Iterator[Open]:
    sides: list[Side] = []
    clock = ShiftedClock()

    def open_(environment: str, project: str = "p", table: str = TABLE, **options: Any) -> Side:
        place = TaskTable(environment, table, **options)
        ledger = Ledger.open(either, clock, owner=RecordOwner(project, environment, {"revenue": place}))
        runtime = make_runtime(ledger, tmp_path, clock)
        received: list[tuple[PublishedSlice, str]] = []

        def announce(result: PublishedSlice, key: str) -> str:
            received.append((result, key))
            return "receipt"

        declared = replace(revenue_task(), effects=(call(announce, keyed=False, name="tell"),))
        runtime.declare(declared)
        runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder=NEVER_GONE)
        sides.append(Side(runtime, declared, received))
        return sides[-1]

    yield open_
    for side in sides:
        side.ledger.close()


def different(opened: Open, how: str) -> tuple[Side, Side]:
    if how == "environments":
        return opened("dev"), opened("prod")
    if how == "projects":
        return opened("dev", "p"), opened("dev", "q")
    return opened("dev"), opened("dev", table="delta:shop.other")


WAYS = pytest.mark.parametrize("how", ["environments", "projects", "tables"])


@WAYS
def test_an_effect_that_one_has_sent_goes_out_for_the_other_too_under_a_key_of_its_own(opened: Open, how: str) -> None:
    one, other = different(opened, how)
    one.run()
    assert [end.already for end in other.run().effects] == [False]
    assert len(one.received) == len(other.received) == 1
    assert one.received[0][1] != other.received[0][1]


@WAYS
def test_nobody_says_already_published_of_what_another_published_nor_forgets_it(opened: Open, how: str) -> None:
    one, other = different(opened, how)
    first = one.run()
    second = other.run()
    assert (second.outcome, second.notes, second.why) == (Outcome.PUBLISHED, (), "never published")
    again = one.run()
    assert (again.outcome, again.notes, again.slices) == (Outcome.ALREADY, (), first.slices)
    assert one.ledger.run("revenue", DAY) != other.ledger.run("revenue", DAY)


@WAYS
def test_each_has_its_own_lease_on_a_slice_of_that_name(opened: Open, how: str) -> None:
    one, other = different(opened, how)
    for side, attempt in ((one, "a"), (other, "b")):
        claim = side.ledger.claim(ClaimRequest("revenue", [DAY], attempt, "run", NEVER_GONE), MINUTE)
        assert isinstance(claim, Claim)


PLAN = BackfillPlan(
    "june",
    BackfillRequest("revenue", DAY, NEXT),
    (PlannedBatch(1, "revenue", (PlannedSlice(DAY, "missing", "never published"),), "run"),),
    {},
    (),
)
READS: dict[str, Callable[[Ledger], Any]] = {
    "attempt": lambda ledger: ledger.attempt("a"),
    "attempt of a task": lambda ledger: ledger.attempt("a", "revenue"),
    "attempts": lambda ledger: ledger.attempts("revenue"),
    "attempts of a slice": lambda ledger: ledger.attempts("revenue", DAY),
    "open attempts": lambda ledger: ledger.open_attempts(),
    "open attempts of a task": lambda ledger: ledger.open_attempts("revenue"),
    "leftovers": lambda ledger: ledger.undiscarded(),
    "run": lambda ledger: ledger.run("revenue", DAY),
    "runs": lambda ledger: ledger.runs(),
    "runs of slices": lambda ledger: ledger.runs_of("revenue", [DAY]),
    "overview": lambda ledger: ledger.overview(None, 10).total,
    "failed runs": lambda ledger: ledger.overview(None, 10).failed,
    "quarantined": lambda ledger: ledger.quarantined("revenue"),
    "why a generation was published": lambda ledger: ledger.why_published("revenue", DAY, 1),
    "frozen bound": lambda ledger: ledger.frozen_aim("revenue", NEXT, 0),
    "furthest mark": lambda ledger: ledger.furthest_aim("revenue", DAY, 1),
    "last version": lambda ledger: ledger.last_version("revenue"),
    "publishers": lambda ledger: ledger.publishers("revenue"),
    "publishes": lambda ledger: ledger.publishes("revenue"),
    "slices whose rows were displaced": lambda ledger: ledger.displaced("revenue"),
    "published versions": lambda ledger: ledger.published_versions("revenue", [DAY]).versions,
    "pins": lambda ledger: ledger.pins("revenue", "shop.orders"),
    "what a person accepted": lambda ledger: ledger.accepted("revenue", "shop.orders"),
    "inputs": lambda ledger: ledger.inputs("revenue"),
    "what code is made of": lambda ledger: ledger.code_parts("revenue", ["code"]),
    "looks": lambda ledger: ledger.looks(),
    "proofs": lambda ledger: ledger.proofs(),
    "backfills": lambda ledger: ledger.backfills.records(),
    "backfill": lambda ledger: ledger.backfills.record("june"),
    "batches": lambda ledger: ledger.backfills.batches("june"),
    "held batches": lambda ledger: ledger.backfills.held("june"),
}
# Every public method of the ledger is here, or among the READS above, or in one of the two tests below.
ORDERS = [
    "abandon_unlooked",
    "record_found",
    "advance",
    "claim",
    "close_attempt",
    "discarded",
    "fix",
    "forget",
    "gather",
    "lift",
    "postpone",
    "prune",
    "publish",
    "quarantine",
    "record_acceptance",
    "record_look",
    "record_proof",
    "record_takeover",
    "release",
    "rename",
    "renew",
]
OF_THE_LEDGER_ITSELF = [
    "backfills",
    "close",
    "environments",
    "export",
    "owner",
    "left_open",
    "migrate",
    "now",
    "of_environment",
    "open",
    "outbox",
    "unassigned",
]
ASKED = [
    "accepted",
    "attempt",
    "attempts",
    "code_parts",
    "frozen_aim",
    "furthest_aim",
    "displaced",
    "inputs",
    "last_version",
    "looks",
    "open_attempts",
    "overview",
    "pins",
    "proofs",
    "published_versions",
    "publishers",
    "publishes",
    "quarantined",
    "run",
    "runs",
    "runs_of",
    "undiscarded",
    "why_published",
]


def test_every_method_of_the_ledger_is_asked_or_ordered_here() -> None:
    """A new one must be added, with a question or an order that shows whose records it reaches."""
    public = {name for name in dir(Ledger) if not name.startswith("_")}
    assert public == {*ORDERS, *OF_THE_LEDGER_ITSELF, *ASKED}


EFFECT_READS: dict[str, Callable[[Ledger, int], Any]] = {
    "find": lambda ledger, id_: ledger.outbox.find(id_),
    "events": lambda ledger, id_: ledger.outbox.events(id_),
    "of attempt": lambda ledger, id_: ledger.outbox.of_attempt("a"),
    "last effect": lambda ledger, id_: ledger.outbox.last_counted("revenue", DAY, "tell"),
    "in state": lambda ledger, id_: ledger.outbox.in_state(S.SENT),
    "listed": lambda ledger, id_: ledger.outbox.listed((), None, 10),
    "counts": lambda ledger, id_: ledger.outbox.counts(),
}


def busy_side(side: Side) -> int:
    """Something of everything: published, adopted, failed, quarantined, open, proved, planned and sent. The effect's
    id."""
    side.run()
    ledger = side.ledger
    for attempt, label in (("failed", "x"), ("a", NEXT)):
        claim = ledger.claim(ClaimRequest("revenue", [label], attempt, "run", NEVER_GONE), MINUTE)
        assert isinstance(claim, Claim)
        ledger.fix(claim, {label: 0}, {label: 5})
    ledger.close_attempt("failed", AttemptState.FAILED, Facts(code_parts={"code": {"write=": "1"}}))
    ledger.quarantine("failed", "three times")
    ledger.record_found("revenue", [FoundPublish("without inputs", 1, "another ledger's", Intention("code", None))])
    ledger.record_acceptance("revenue", "word", "ana", "checked", [AcceptedSlice(DAY, 1, {"shop.orders": 1})])
    ledger.record_look(Look("revenue", ledger.now(), "code", 1, (SeenSlice(DAY, "stale", "so", 1, "a", "a"),)))
    ledger.record_proof(Proof("revenue", DAY, "code", ledger.now(), (), 0.0))
    assert ledger.backfills.create(PLAN)
    assert ledger.backfills.claim("june", "worker", MINUTE)
    (effect,) = ledger.outbox.listed((), None, 10)
    return effect.id


@pytest.mark.parametrize("how", ["environments", "projects"])
def test_no_question_is_answered_from_anothers_records(opened: Open, how: str) -> None:
    one, other = different(opened, how)
    effect = busy_side(one)
    for what, ask in READS.items():
        assert ask(one.ledger), what  # else the question below would be an empty one
        assert not ask(other.ledger), what
    for what, ask_of in EFFECT_READS.items():
        assert what == "of attempt" or ask_of(one.ledger, effect), what
        assert not ask_of(other.ledger, effect), what


@pytest.mark.parametrize("how", ["environments", "projects"])
def test_no_order_reaches_anothers_records(opened: Open, how: str) -> None:
    one, other = different(opened, how)
    busy_side(one)
    before = [tuple(map(str, row.items())) for row in one.ledger.export() if row.get("table") != "tasks"]
    ledger = other.ledger
    ledger.prune(ledger.now() + 1000 * MINUTE)
    ledger.lift("revenue", ["x"])
    ledger.forget("revenue", DAY)
    ledger.release("a")
    ledger.discarded("failed")
    ledger.postpone("failed", ledger.now(), "later")
    assert not ledger.close_attempt("a", AttemptState.FAILED)
    assert not ledger.abandon_unlooked("a")
    assert not ledger.quarantine("failed", "again")
    assert ledger.backfills.claim("june", "thief", MINUTE) is None
    assert not ledger.backfills.free("june", 1, 1)
    assert not ledger.backfills.finish("june")
    assert ledger.backfills.again("june") == 0
    ledger.rename("revenue", "renamed")
    ledger.gather("revenue")
    assert not recover(other.runtime.context, None)
    assert not collect_garbage(other.runtime.context, None)
    assert not check(other.runtime.context, None)
    assert [built.slices for built in rebuild_ledger(other.runtime.context, None)] == [0]
    assert [tuple(map(str, row.items())) for row in one.ledger.export() if row.get("table") != "tasks"] == before


def test_a_worker_takes_batches_of_its_own_environment_alone(opened: Open) -> None:
    dev, prod = opened("dev"), opened("prod")
    request = BackfillRequest("revenue", DAY, NEXT)
    for side in (dev, prod):
        record, plan = start(side.runtime.context, request, "june")
        assert plan is not None and record.total == 2
    done = work(prod.runtime.context, "june", lambda event: None, Stop.never())
    assert (done.done, done.total) == (2, 2)
    untouched = dev.ledger.backfills.record("june")
    assert untouched is not None and (untouched.done, untouched.total) == (0, 2)
    assert dev.ledger.attempts("revenue") == ()


def test_a_task_with_another_table_starts_over_and_still_sends_what_the_old_one_had_to_send(opened: Open) -> None:
    before = opened("dev")
    before.runtime.context = replace(before.runtime.context, sends=False)
    before.run()
    after = opened("dev", table="delta:shop.moved")
    assert after.ledger.runs("revenue") == () and after.ledger.runs() == ()
    after.run()
    assert sorted(result.slice for result, _ in after.received) == [DAY, DAY]
    assert len({key for _, key in after.received}) == 2
    assert after.run().outcome is Outcome.ALREADY


def moved(side: Side, opened: Open, sample: int = 0) -> Side:
    """The same task once it writes another table, in the same table system."""
    after = same_tables(side, opened("dev", table="delta:shop.moved"))
    function = after.task.effects[0].function
    assert function is not None
    effect = call(function, keyed=False, name="tell", sample=sample)
    after.task = replace(after.task, target=TableName("shop.moved"), effects=(effect,))
    after.runtime.declare(after.task)
    after.runtime.clock.ahead += timedelta(hours=1)
    return after


def test_what_landed_in_the_old_table_without_reporting_back_is_recorded_and_its_effect_goes(opened: Open) -> None:
    before = opened("dev")
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        before.run()
    after = moved(before, opened)
    (found,) = check(after.runtime.context, None)
    assert "shop.revenue, which its task no longer writes" in found.what and found.fix == "twice recover"
    assert [(end.task, end.labels, end.state) for end in recover(after.runtime.context, None)] == [
        ("revenue", (DAY,), AttemptState.PUBLISHED)
    ]
    assert [result.slice for result, _ in after.received] == [DAY]
    assert recover(after.runtime.context, None) == () and check(after.runtime.context, None) == ()
    assert after.ledger.runs() == ()
    assert after.run().outcome is Outcome.PUBLISHED
    assert len(after.received) == 2


def test_what_did_not_land_in_the_old_table_is_given_up_when_its_lease_is_over(opened: Open) -> None:
    before = opened("dev")
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_AUDIT)):
        before.run()
    after = moved(before, opened)
    assert [end.state for end in recover(after.runtime.context, None)] == [AttemptState.ABANDONED]
    assert after.received == []


def test_an_old_table_that_cannot_be_asked_stops_nothing_and_stays_listed(opened: Open) -> None:
    before = opened("dev")
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        before.run()
    after = moved(before, opened)
    whole = after.runtime.context

    def target_of(table: TableName, session: Any) -> Any:
        if table.name == "shop.revenue":
            raise RuntimeError("no such connection any more")
        return before.runtime.target

    after.runtime.context = replace(whole, target_of=target_of)
    assert recover(after.runtime.context, None) == ()
    (one,) = collect_garbage(after.runtime.context, None)
    assert (one.task, one.unasked) == ("revenue", "shop.revenue: RuntimeError: no such connection any more")
    assert [found.fix for found in check(after.runtime.context, None)] == ["twice recover"]
    assert [end.state for end in recover(whole, None)] == [AttemptState.PUBLISHED]


def test_an_effect_of_the_old_table_has_no_rows_of_the_new_one(opened: Open) -> None:
    before = opened("dev")
    before.runtime.context = replace(before.runtime.context, sends=False)
    with pytest.raises(Crash), armed(crash_at(SendPoint.RELEASED)):
        before.run()
    after = moved(before, opened, sample=5)
    after.task = replace(after.task, function=lambda orders: replace(summed(orders), rows=((MOVED_DAY, 1000),)))
    after.run()
    received = {result.sample[0]["revenue"] for result, _ in after.received}
    assert received == {15, 1000}


def test_nor_counts_of_the_new_one(opened: Open) -> None:
    """One of which nobody knows the attempt, and which a person wants to be sent after all."""
    before = opened("dev")
    whose = before.ledger.owner.effect_owner("revenue")
    unknown = prepare(whose, "revenue", before.task.effects[0], PublishedGeneration(NEXT, 1))
    assert before.ledger.outbox.remember_unknown("revenue", [unknown]) == 1
    after = moved(before, opened)
    after.run(NEXT)
    post = delivery_of(after.runtime.context)
    (effect,) = after.ledger.outbox.in_state(S.UNKNOWN)
    resolve(post, effect.id, EffectDecision("resend", "ana", "was never sent"))
    render_released(post)
    drain(post)
    assert [(result.generation, result.rows) for result, _ in after.received] == [(1, 1), (1, None)]


def test_a_renamed_task_keeps_its_records_in_its_own_environment_alone(opened: Open) -> None:
    dev, prod = opened("dev"), opened("prod")
    dev.run()
    prod.run()
    assert dev.ledger.backfills.create(PLAN)
    dev.ledger.rename("older", "revenue")  # nothing is known of it
    home = RecordOwner("p", "dev", {"takings": TaskTable("dev", TABLE)})
    dev.runtime.context = replace(dev.runtime.context, ledger=replaced(dev, home))
    for _ in range(2):
        dev.ledger.rename("revenue", "takings")
    assert [run.task for run in dev.ledger.runs()] == ["takings"]
    assert dev.ledger.outbox.last_counted("takings", DAY, "tell") is not None
    assert [batch.task for batch in dev.ledger.backfills.batches("june")] == ["takings"]
    assert [run.task for run in prod.ledger.runs()] == ["revenue"]


def replaced(side: Side, home: RecordOwner) -> Ledger:
    """The same ledger, opened for another owner."""
    return Ledger(replace(side.ledger._transactions, own=OwnRows(home)))


def test_a_place_that_is_given_a_name_keeps_its_records(opened: Open) -> None:
    before = opened("/data/prod")
    before.run()
    assert before.ledger.backfills.create(PLAN)
    after = opened("prod", formerly=("/data/prod",))
    after.runtime.target = before.runtime.target
    after.runtime.context = replace(after.runtime.context, target_of=before.runtime.context.target_of)
    assert after.run().outcome is Outcome.ALREADY
    assert after.received == []
    record = after.ledger.backfills.record("june")
    assert record is not None and record.total == 1 and len(after.ledger.backfills.batches("june")) == 1
    assert before.ledger.runs() == () and before.ledger.backfills.records() == ()
    assert opened("prod", formerly=("/data/prod",)).ledger.runs() == after.ledger.runs()


def test_a_process_that_does_not_know_yet_that_its_place_has_a_name_publishes_and_sends(opened: Open) -> None:
    """Its later records follow when the ledger is next opened under the name."""
    worker = opened("/data/prod")
    worker.run()
    opened("prod", formerly=("/data/prod",))
    assert worker.run(NEXT).outcome is Outcome.PUBLISHED
    assert [result.slice for result, _ in worker.received] == [DAY, NEXT]
    named = opened("prod", formerly=("/data/prod",))
    assert [(run.label, run.generation) for run in named.ledger.runs()] == [(DAY, 1), (NEXT, 1)]
    assert [effect.state for effect in named.ledger.outbox.listed((), None, 10)] == [S.SENT, S.SENT]
    assert worker.ledger.runs() == ()


def test_an_attempt_that_is_under_way_while_its_place_is_named_is_settled_under_the_name(opened: Open) -> None:
    """Its own process does not find it any more, tries again, and finds a publish of which it knows nothing."""
    worker = opened("/data/prod")

    def name_the_place(point: Point | SendPoint) -> None:
        if point is Point.PUBLISHING:
            opened("prod", formerly=("/data/prod",))

    with armed(name_the_place):
        assert worker.run().outcome is Outcome.ALREADY
    named = same_tables(worker, opened("prod", formerly=("/data/prod",)))
    named.runtime.clock.ahead += timedelta(hours=1)
    assert [end.state for end in recover(named.runtime.context, None)] == [AttemptState.PUBLISHED]
    assert [result.slice for result, _ in named.received] == [DAY]
    assert [effect.state for effect in named.ledger.outbox.listed((), None, 10)] == [S.SENT]


def test_a_look_under_the_name_loses_no_effect_of_a_process_that_does_not_know_it_yet(opened: Open) -> None:
    worker = opened("/data/prod")
    named = same_tables(worker, opened("prod", formerly=("/data/prod",)))
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        worker.run()
    named.runtime.clock.ahead += timedelta(hours=1)
    assert named.run().outcome is Outcome.ALREADY  # by the table's word: nobody knows what was sent of it
    again = same_tables(worker, opened("prod", formerly=("/data/prod",)))
    recover(again.runtime.context, None)
    assert [result.slice for result, _ in again.received] == [DAY]


def same_tables(one: Side, other: Side) -> Side:
    other.runtime.target = one.runtime.target
    other.runtime.context = replace(other.runtime.context, target_of=one.runtime.context.target_of)
    return other


def test_attempts_under_a_key_that_nobody_registered_follow_when_the_place_is_named(opened: Open) -> None:
    """A claim and the naming at the same moment: the claim finds the key registered, and then it is not."""
    worker = opened("/data/prod")
    worker.run()
    with worker.ledger._writing() as connection:
        connection.execute(delete(tasks))
    named = opened("prod", formerly=("/data/prod",))
    assert [(run.label, run.generation) for run in named.ledger.runs()] == [(DAY, 1)]


def test_a_crash_in_one_environment_is_settled_there_alone(opened: Open) -> None:
    dev, prod = opened("dev"), opened("prod")
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        dev.run()
    prod.runtime.clock.ahead += timedelta(hours=1)
    prod.run()
    assert recover(prod.runtime.context, None) == ()
    assert [end.state for end in recover(dev.runtime.context, None)] == [AttemptState.PUBLISHED]
    assert len(dev.received) == len(prod.received) == 1


def test_facts_of_a_publish_are_refused_from_a_ledger_of_another_environment(opened: Open) -> None:
    dev, prod = opened("dev"), opened("prod")
    busy_side(dev)
    with pytest.raises(Exception, match="is not in this ledger: it was replaced, or its environment was dropped"):
        prod.ledger.publish("a", Facts(), generations={NEXT: 1})


def test_an_environment_that_was_dropped_and_runs_again_publishes_and_sends_nothing_twice(opened: Open) -> None:
    dev, prod = opened("dev"), opened("prod")
    for side in (dev, prod):
        side.run()
    gone = dev.ledger.environments.drop("prod", EnvironmentDrop("1", "ana", "the customer is gone"))
    assert isinstance(gone, EnvironmentRecords) and gone.effects == {S.SENT: 1}
    again = same_tables(prod, opened("prod"))
    result = again.run()
    assert (result.outcome, [end.state for end in result.effects]) == (Outcome.ALREADY, [S.UNKNOWN])
    again.run(kind="restate")
    assert again.received == [] and len(prod.received) == 1
    assert [run.generation for run in dev.ledger.runs()] == [1] and dev.run().outcome is Outcome.ALREADY


def test_an_environment_whose_attempt_is_publishing_is_not_dropped_and_its_effect_goes_out_once(opened: Open) -> None:
    """Its lease had run out, so only its prepared effect showed that it was there: its rows may be in the table."""
    dev, prod = opened("dev"), opened("prod")

    def drop_it(passed: object) -> None:
        if passed is Point.AFTER_PUBLISH:
            prod.runtime.clock.ahead += timedelta(hours=1)
            kept = dev.ledger.environments.drop("prod", EnvironmentDrop("1", "ana", "nobody is there"))
            assert isinstance(kept, Unfinished)
            assert dict(kept.effects) == {S.PREPARED: 1}

    with armed(drop_it):
        result = prod.run()
    assert (result.outcome, [end.state for end in result.effects]) == (Outcome.PUBLISHED, [S.SENT])
    assert len(prod.received) == 1
    assert [run.generation for run in prod.ledger.runs()] == [1]
