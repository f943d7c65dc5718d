"""A PostgreSQL ledger in trouble: never reached, gone in the middle, cut off, without rights. Nothing is doubled,
nothing is lost, and the message helps and holds no password."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cutting_proxy import Cut, CuttingProxy
from tests.postgres_server import PASSWORD, QUOTED_PASSWORD, PostgresServer
from tests.runtime.conftest import DAY, RuntimeSetup, ShiftedClock, make_runtime, revenue_task

from twice.core.failure.failpoints import Action, Point, SendPoint, armed
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts
from twice.core.results.run import Outcome
from twice.errors import EnvironmentProblem, LedgerOutOfReach
from twice.ledgers.ledger import Ledger

MINUTE = timedelta(minutes=1)


def problem_of(url: str) -> EnvironmentProblem:
    with pytest.raises(EnvironmentProblem) as caught:
        Ledger.open(url)
    chain: list[BaseException] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    for secret in (PASSWORD, QUOTED_PASSWORD, "s3kr1t"):
        assert not any(secret in f"{link!s} {link!r}" for link in chain)
    assert caught.value.fix
    return caught.value


@pytest.fixture
def runtime(database: str, tmp_path: Path) -> Iterator[RuntimeSetup]:
    """A run context whose ledger is in PostgreSQL; its target is in memory and outlives the server."""
    made = make_runtime(Ledger.open(database), tmp_path, ShiftedClock())
    yield made
    made.ledger.close()


class TestOpening:
    def test_a_wrong_password_is_reported_and_never_shown(self, postgres: PostgresServer, database: str) -> None:
        error = problem_of(database.replace(QUOTED_PASSWORD, "s3kr1t"))
        assert "the ledger's server refused this user and password" in str(error)
        assert error.where.startswith("ledger postgresql://postgres:***@127.0.0.1:")

    def test_a_server_that_is_down_is_reported_at_once(self, database: str) -> None:
        began = time.monotonic()
        error = problem_of(f"postgresql://me:{QUOTED_PASSWORD}@127.0.0.1:1/db")
        assert isinstance(error, LedgerOutOfReach)
        assert "the ledger's server does not answer" in str(error)
        assert "Check that the server is up" in error.fix
        assert time.monotonic() - began < 20

    def test_a_database_that_does_not_exist_is_reported(self, postgres: PostgresServer) -> None:
        error = problem_of(postgres.url("no_such_database"))
        assert "the ledger's database or user does not exist" in str(error)
        assert "createdb" in error.fix

    def test_a_host_that_does_not_exist_is_reported(self) -> None:
        error = problem_of(f"postgresql://me:{QUOTED_PASSWORD}@no-such-host.invalid/db")
        assert "the ledger's server has no such name" in str(error)

    def test_a_user_without_rights_learns_which_ones_it_needs(self, postgres: PostgresServer, database: str) -> None:
        name = database.rpartition("/")[2]
        postgres.execute("DROP ROLE IF EXISTS reader")
        postgres.execute("CREATE ROLE reader LOGIN PASSWORD 's3kr1t'")
        error = problem_of(postgres.url(name, "reader", "s3kr1t"))
        assert "this user lacks privileges on the ledger's tables" in str(error)
        assert "USAGE and CREATE on the schema" in error.fix

    def test_a_user_with_the_least_rights_works_in_a_ledger_that_another_migrated(
        self, postgres: PostgresServer, database: str
    ) -> None:
        name = database.rpartition("/")[2]
        Ledger.open(database).close()
        postgres.execute("DROP ROLE IF EXISTS worker")
        postgres.execute("CREATE ROLE worker LOGIN PASSWORD 's3kr1t'")
        postgres.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO worker", name)
        postgres.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO worker", name)
        ledger = Ledger.open(postgres.url(name, "worker", "s3kr1t"))
        held = ledger.claim(ClaimRequest("t", ["a"], "one", "run", "h"), MINUTE)
        assert isinstance(held, Claim)
        ledger.publish("one", Facts(), generations={"a": 1})
        ledger.close()
        postgres.execute("DROP OWNED BY worker", name)

    def test_a_standby_that_cannot_be_written_is_reported(self, postgres: PostgresServer, database: str) -> None:
        Ledger.open(database).close()
        ledger = Ledger.open(f"{database}?options=-c%20default_transaction_read_only=on")
        with pytest.raises(EnvironmentProblem, match="read-only: it may be a standby"):
            ledger.claim(ClaimRequest("t", ["a"], "one", "run", "h"), MINUTE)
        ledger.close()


class TestServerGone:
    """The server is restarted, as by a crash, at every point of a run."""

    @pytest.mark.parametrize("point", list(Point))
    def test_a_run_outlives_a_restart_of_the_server_at_any_point(
        self, runtime: RuntimeSetup, postgres: PostgresServer, point: Point
    ) -> None:
        declared = runtime.declare(revenue_task())
        with armed(once(point, postgres.restart)):
            assert runtime.run(declared).outcome is Outcome.PUBLISHED
        assert runtime.revenue == [(DAY, 15)]
        (attempt,) = runtime.ledger.attempts("revenue")
        assert (attempt.state, attempt.error) == (AttemptState.PUBLISHED, None)
        assert runtime.run(declared).outcome is Outcome.ALREADY

    @pytest.mark.parametrize("point", [p for p in Point if p is not Point.AFTER_FINISH])
    def test_without_its_ledger_a_run_publishes_only_what_it_recorded_first_and_the_next_converges(
        self, database: str, tmp_path: Path, postgres: PostgresServer, point: Point
    ) -> None:
        runtime = make_runtime(Ledger.open(database, patience=0.2), tmp_path, ShiftedClock())
        declared = runtime.declare(revenue_task())
        try:
            with armed(once(point, postgres.stop)), pytest.raises(EnvironmentProblem) as caught:
                runtime.run(declared)
            generation = runtime.target.published(declared.target, ["twice/p/revenue/2026-06-09"]).generations
            # Until the intent is in the ledger nothing may land; from then on everything has, or nothing.
            landed = list(Point).index(point) >= list(Point).index(Point.PUBLISHING)
            assert list(generation.values()) == [1 if landed else 0]
            assert isinstance(caught.value, LedgerOutOfReach)
        finally:
            postgres.go()
        # The next process does not wait for the lease: it sees that this one's is over.
        postgres.execute("UPDATE twice_leases SET until = clock_timestamp()", database.rpartition("/")[2])
        again = runtime.run(declared)
        assert again.outcome is (Outcome.ALREADY if landed else Outcome.PUBLISHED)
        assert runtime.revenue == [(DAY, 15)]
        assert runtime.ledger.open_attempts() == () or not landed
        runtime.ledger.close()

    def test_a_heartbeat_outlives_a_restart_and_keeps_the_lease(
        self, runtime: RuntimeSetup, postgres: PostgresServer
    ) -> None:
        held = runtime.ledger.claim(ClaimRequest("t", ["a"], "one", "run", "h"), MINUTE)
        assert isinstance(held, Claim)
        postgres.stop(immediate=True)
        renewed: list[bool] = []
        beat = threading.Thread(target=lambda: renewed.append(runtime.ledger.renew(held, 2 * MINUTE)))
        beat.start()
        postgres.go()
        beat.join(60)
        assert renewed == [True]


class TestCutOff:
    """The line is cut at every message of a claim, of a heartbeat, of a step: once, anywhere."""

    @pytest.fixture
    def proxy(self, postgres: PostgresServer) -> Iterator[CuttingProxy]:
        made = CuttingProxy(postgres.port)
        yield made
        made.close()

    @pytest.mark.parametrize("how", list(Cut))
    @pytest.mark.parametrize("call", ["claim", "renew", "advance", "publish"])
    def test_a_call_cut_off_at_any_message_happens_once(
        self, database: str, postgres: PostgresServer, proxy: CuttingProxy, call: str, how: Cut
    ) -> None:
        ledger = Ledger.open(database.replace(f":{postgres.port}/", f":{proxy.port}/") + "?sslmode=disable")
        direct = Ledger.open(database)
        pieces = 0
        while True:
            pieces += 1
            act = prepared(ledger, call, f"{call}-{pieces}")
            proxy.arm(pieces, how)
            act()
            was_cut = proxy.cut
            proxy.arm(-1, how)
            check_happened_once(direct, call, f"{call}-{pieces}")
            if not was_cut:
                break
        assert pieces > 4, "no line was cut"
        ledger.close()
        direct.close()


def prepared(ledger: Ledger, call: str, name: str) -> Callable[[], object]:
    def claim() -> Claim:
        held = ledger.claim(ClaimRequest(name, ["a", "b"], name, "run", "h"), MINUTE)
        assert isinstance(held, Claim), held
        return held

    if call == "claim":
        return claim
    held = claim()
    if call == "renew":
        return lambda: ledger.renew(held, 5 * MINUTE) or pytest.fail("the lease was lost")
    if call == "advance":
        facts = Facts(why="why", notes=("a note",))
        return lambda: ledger.advance(held, AttemptState.CLAIMED, AttemptState.STAGED, facts)
    return lambda: ledger.publish(name, Facts(version=7), generations={"a": 1, "b": 1})


def check_happened_once(ledger: Ledger, call: str, name: str) -> None:
    (attempt,) = ledger.attempts(name)
    assert len(attempt.slices) == 2
    runs = ledger.runs(name)
    if call == "publish":
        assert [run.generation for run in runs] == [1, 1]
        assert attempt.lease_until is None
        return
    assert [run.generation for run in runs] == [0, 0]
    assert attempt.lease_until is not None
    assert (attempt.lease_until - attempt.started > 2 * MINUTE) == (call == "renew")
    assert (attempt.state is AttemptState.STAGED) == (call == "advance")
    assert attempt.notes == (("a note",) if call == "advance" else ())


def once(point: Point, act: Callable[[], None]) -> Action:
    done: list[Point | SendPoint] = []

    def passing(passed: Point | SendPoint) -> None:
        if passed is point and not done:
            done.append(passed)
            act()

    return passing


def test_a_ledger_whose_tables_vanish_is_reported(
    runtime: RuntimeSetup, postgres: PostgresServer, database: str
) -> None:
    postgres.execute("DROP TABLE twice_leases", database.rpartition("/")[2])
    with pytest.raises(EnvironmentProblem, match="the ledger has lost its tables"):
        runtime.ledger.claim(ClaimRequest("t", ["a"], "one", "run", "h"), MINUTE)


def test_a_process_stopped_in_a_transaction_does_not_keep_the_others_waiting_for_ever(database: str) -> None:
    """Its session is ended by the server; here the limit is a second, given in the URL, whose word wins."""
    short = f"{database}?options=-c%20idle_in_transaction_session_timeout=1s"
    stopped, other = Ledger.open(short), Ledger.open(database)
    with stopped._engine.connect() as silent:
        silent.begin()
        silent.exec_driver_sql("LOCK TABLE twice_leases IN ACCESS EXCLUSIVE MODE")
        found = other.claim(ClaimRequest("t", ["a"], "one", "run", "h"), MINUTE)
        assert isinstance(found, Claim)
        silent.invalidate()
    stopped.close()
    other.close()
