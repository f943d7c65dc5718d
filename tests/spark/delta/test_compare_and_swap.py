"""What another writer does between our look and our commit, and what a lost reply hides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured
from tests.contracts import upsert_suite as upserts
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.target_suite import (
    COLUMNS,
    DAY,
    NEXT,
    REVENUE,
    commit,
    generations,
    note_of,
    plan_of,
    prepare,
    publish,
    sale,
    table,
    watching,
)
from tests.sample import sample

from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ports import Landed, Lost, Staged
from twice.core.table.owner import LAST_TAKEOVER
from twice.core.task import TableName
from twice.errors import OutcomeUnknown, RunError
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.probe import Probed, publish_a_day
from twice.wiring.delta import INSTRUMENTS

OLD, NEW = sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "eu", "2.00")


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=True)


@pytest.fixture
def public(spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=False)


@contextmanager
def meanwhile(act: Callable[[], Any]) -> Iterator[None]:
    """Somebody who does not take our lock acts once, after our checks and right before our commit."""
    turns = iter([act])

    def action(point: Point | SendPoint) -> None:
        if point is Point.BEFORE_COMMIT:
            next(turns, lambda: None)()

    with armed(action):
        yield


def staged_day(harness: DeltaHarness, target: Any, attempt: str = "mine") -> Staged:
    staged: Staged = target.stage(REVENUE, harness.frame(target, COLUMNS, [NEW]), plan_of(DAY), attempt)
    return staged


def move_token(harness: DeltaHarness, app: str, generation: int, name: TableName = REVENUE) -> None:
    """A commit that moves a token and touches no file: only the registered token can make it a conflict."""
    from twice.targets.active_session import as_active_session
    from twice.targets.delta.log.log import Log

    target: Any = harness.target()
    with as_active_session(target._session):
        Log(target._session, harness.locate(name)).begin().commit([], [], {app: generation}, None, "{}")


def forget_checksums(harness: DeltaHarness) -> None:
    for path in (Path(harness.locate(REVENUE)) / "_delta_log").glob("*.crc"):
        path.unlink()


@pytest.mark.parametrize("checksums", sample([True, False], of=[True]))
def test_a_token_moved_between_look_and_commit_is_a_conflict(harness: DeltaHarness, checksums: bool) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="first")
    staged = staged_day(harness, target)
    if not checksums:
        forget_checksums(harness)
    app = staged.plan.token_names[0]
    with meanwhile(lambda: move_token(harness, app, 2)):
        outcome = commit(target, staged, {app: 1})
    assert isinstance(outcome, Lost)
    assert outcome.published.generations == {app: 2}
    assert table(harness, target) == [OLD]


def test_a_token_moved_meanwhile_makes_the_public_path_lose_too(public: DeltaHarness) -> None:
    target = public.target()
    prepare(target)
    staged = staged_day(public, target)
    app = staged.plan.token_names[0]
    # Delta then skips our write without a word and reports success.
    with meanwhile(lambda: move_token(public, app, 1)):
        outcome = commit(target, staged, {app: 0})
    assert isinstance(outcome, Lost)
    assert table(public, target) == []


@pytest.mark.parametrize("token", [LAST_TAKEOVER, "twice-cut/p/revenue"])
def test_a_watched_token_moved_between_look_and_commit_is_a_conflict(harness: DeltaHarness, token: str) -> None:
    """Whose the table is, and how it is cut: also by a writer who does not take our lock."""
    target = harness.target()
    prepare(target)
    plan = watching(plan_of(DAY))
    staged = target.stage(REVENUE, harness.frame(target, COLUMNS, [NEW]), plan, "mine")
    with meanwhile(lambda: move_token(harness, token, 1)):
        outcome = target.commit(
            staged, dict.fromkeys(plan.compared, 0), note_of(plan, "mine", generations(target, plan))
        )
    assert isinstance(outcome, Lost)
    assert outcome.published.generations == {**dict.fromkeys(plan.compared, 0), token: 1}
    assert table(harness, target) == []


def test_a_token_that_moved_is_seen_under_the_lock_though_delta_is_not_asked(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That Delta refuses the swap rests on private calls: here they have stopped to count."""
    from twice.targets.delta.handle import TableHandle
    from twice.targets.delta.log.log import Log
    from twice.targets.delta.log.transaction import Transaction

    target = harness.target()
    upserts.prepare(target)
    staged = upserts.stage(harness, target, [(1, "new", 10)], upserts.NEWEST, "mine")
    app = staged.plan.token_names[0]
    at = harness.locate(upserts.ORDERS)

    def unregistered(self: Transaction, token_names: Any) -> dict[str, int]:
        return Log(self._session, at).generations(list(token_names))[1]

    def locked(site: TableHandle) -> Any:
        move_token(harness, app, 1, upserts.ORDERS)
        return nullcontext()

    monkeypatch.setattr(Transaction, "generations", unregistered)
    monkeypatch.setattr(TableHandle, "locked", locked)
    outcome = upserts.commit(target, staged, {app: 0})
    assert isinstance(outcome, Lost)
    assert outcome.published.generations == {app: 1}
    assert upserts.table(harness, target) == []


def test_generations_are_the_same_with_and_without_the_checksum_file(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    publish(harness, target, [], NEXT, attempt="b")
    plan = plan_of(DAY, NEXT)
    with_them = generations(harness.target(), plan)
    forget_checksums(harness)
    assert generations(harness.target(), plan) == with_them == dict.fromkeys(plan.token_names, 1)
    # Asked for by the hundred they are found by how they begin; what else begins so is not returned.
    move_token(harness, f"{plan.token_names[0]}-other", 7)
    forget_checksums(harness)
    many = [*plan.token_names, *(f"{plan.token_names[0]}-{at}" for at in range(500))]
    found = harness.target().published(REVENUE, many).generations
    assert found == {**dict.fromkeys(many, 0), **with_them}


def test_a_checksum_file_of_another_commit_is_not_believed(harness: DeltaHarness) -> None:
    from twice.targets.delta.log.history import CommitHistory

    target: Any = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    path = Path(harness.locate(REVENUE)) / "_delta_log" / f"{1:020d}.crc"
    path.write_text(path.read_text().replace('"txnId":"', '"txnId":"x').replace('"version":1', '"version":9'))
    (path.parent / f".{path.name}.crc").unlink()
    assert CommitHistory(target._session, harness.locate(REVENUE)).tokens_at(1) is None
    assert list(generations(harness.target(), plan_of(DAY)).values()) == [1]


def test_another_writer_on_another_slice_does_not_stop_the_commit(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    staged = staged_day(harness, target)
    day = str(sale("2026-06-10", "x", "0")[0])
    with meanwhile(lambda: _sql(harness, f"INSERT INTO {{}} VALUES (DATE '{day}', 'them', 5)")):
        assert isinstance(commit(target, staged, {staged.plan.token_names[0]: 0}), Landed)
    assert [row[1] for row in table(harness, target)] == ["eu", "them"]


@pytest.fixture(params=["plain", "with the package delta"])
def conflicts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the package `delta` replaces PySpark's conversion of Java errors, for the whole process. This is what
    its version 4.4.0 does, word for word where it counts: the Java error itself is not kept."""
    if request.param == "plain":
        return
    before = captured.convert_exception
    base = type("ConcurrentAppendException", (PySparkException,), {"__module__": "delta.exceptions.base"})
    own: Any = type(
        "ConcurrentAppendException", (captured.CapturedException, base), {"__module__": "delta.exceptions.captured"}
    )

    def convert(error: Any) -> Any:
        text = error.toString()
        if text.startswith("io.delta.exceptions.Concurrent"):
            return own(text.split(": ", 1)[1], "its stack trace", error.getCause())
        return before(error)

    monkeypatch.setattr(captured, "convert_exception", convert)


@pytest.mark.usefixtures("conflicts")
def test_a_conflict_that_moved_no_token_is_tried_again(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="first")
    staged = staged_day(harness, target)
    with meanwhile(lambda: _sql(harness, "UPDATE {} SET region = 'them' WHERE order_date = DATE '2026-06-09'")):
        assert isinstance(commit(target, staged, {staged.plan.token_names[0]: 1}), Landed)
    assert table(harness, target) == [NEW]


@pytest.mark.parametrize("checksums", sample([True, False], of=[True]))
def test_rows_another_writer_adds_to_the_slice_meanwhile_are_replaced_too(
    harness: DeltaHarness, checksums: bool
) -> None:
    """Only the registered predicate makes their commit a conflict: it removes no file that we read."""
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="first")
    staged = staged_day(harness, target)
    if not checksums:
        forget_checksums(harness)
    with meanwhile(lambda: _sql(harness, "INSERT INTO {} VALUES (DATE '2026-06-09', 'them', 5)")):
        assert isinstance(commit(target, staged, {staged.plan.token_names[0]: 1}), Landed)
    assert table(harness, target) == [NEW]


def test_a_lost_reply_to_a_commit_that_landed_is_a_landing(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.targets.delta.log.transaction import Transaction

    target = harness.target()
    prepare(target)
    staged = staged_day(harness, target)
    real = Transaction.commit

    def lossy(self: Transaction, *args: Any) -> int:
        real(self, *args)
        raise ConnectionError("no reply")

    monkeypatch.setattr(Transaction, "commit", lossy)
    outcome = commit(target, staged, {staged.plan.token_names[0]: 0})
    assert outcome == Landed(1)
    assert table(harness, target) == [NEW]


def test_a_commit_that_failed_before_it_landed_says_the_table_is_unchanged(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.targets.delta.log.transaction import Transaction

    target = harness.target()
    prepare(target)
    staged = staged_day(harness, target)

    def failing(self: Transaction, *args: Any) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Transaction, "commit", failing)
    with pytest.raises(RunError, match=r"disk full\. The table is unchanged"):
        commit(target, staged, {staged.plan.token_names[0]: 0})
    assert list(generations(harness.target(), staged.plan).values()) == [0]


def test_a_commit_whose_outcome_cannot_be_read_is_unknown(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.targets.delta.log.log import Log
    from twice.targets.delta.log.transaction import Transaction

    target = harness.target()
    prepare(target)
    staged = staged_day(harness, target)

    def failing(*args: Any) -> Any:
        monkeypatch.setattr(Log, "generations", failing)
        raise ConnectionError("gone")

    monkeypatch.setattr(Transaction, "commit", failing)
    with pytest.raises(OutcomeUnknown, match="will look first"):
        commit(target, staged, {staged.plan.token_names[0]: 0})


def test_a_restored_table_keeps_its_tokens_and_takes_the_next_generation(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    _sql(harness, "RESTORE {} TO VERSION AS OF 0")
    assert table(harness, target) == []
    assert list(generations(target, plan_of(DAY)).values()) == [1]
    assert isinstance(publish(harness, target, [NEW], DAY, attempt="b"), Landed)
    assert list(generations(target, plan_of(DAY)).values()) == [2]
    assert table(harness, target) == [NEW]


def _sql(harness: DeltaHarness, statement: str) -> None:
    target: Any = harness.target()
    target._session.sql(statement.format(f"delta.`{harness.locate(REVENUE)}`")).collect()


@pytest.mark.parametrize("internal", [True, False])
def test_the_doctor_plays_a_swap_that_must_lose(spark: Any, tmp_path: Path, internal: bool) -> None:
    found = publish_a_day(spark, tmp_path, INSTRUMENTS, internal)
    assert found.fix == "", found


def test_the_doctor_says_so_if_delta_lets_both_swaps_through(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the call that registers a token on the transaction gave a copy, which only Delta's own refusal shows."""
    registered = Transaction.generations

    def on_another_transaction(_: Transaction, token_names: Any) -> Any:
        return registered(Log(spark, str(tmp_path / "probe")).begin(), token_names)

    monkeypatch.setattr(Transaction, "generations", on_another_transaction)
    found = publish_a_day(spark, tmp_path, INSTRUMENTS)
    assert found == Probed("Delta accepted a conflicting commit", "Set internal = false in twice.toml.")
