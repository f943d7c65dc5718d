"""PostgreSQL in trouble: cut off, restarted, locked, out of time, asked for what it cannot keep. Each time nothing is
doubled, nothing is lost, and the message says what to do. No JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from tests.contracts.postgres_harness import ROWS, PostgresHarness, staged, table
from tests.contracts.target_suite import (
    COLUMNS,
    DAILY,
    DAY,
    NEXT,
    REVENUE,
    commit,
    generations,
    plan_of,
    prepare,
    sale,
    stage_new,
)
from tests.contracts.target_suite import publish as publish_rows
from tests.cutting_proxy import CommitProxy
from tests.postgres_server import PASSWORD, QUOTED_PASSWORD, PostgresServer
from tests.sample import sample

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column, Landed, Lost, Shape
from twice.core.slice import WHOLE
from twice.core.task import TableName
from twice.core.write import Layout
from twice.errors import (
    DeclarationError,
    EnvironmentProblem,
    OutcomeUnknown,
    ResultRefused,
    RunError,
    SchemaDrift,
    StageLost,
    TableChanged,
)
from twice.targets.memory.rows import Rows
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.write import publish as publishing


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


@contextmanager
def holding(url: str, statement: str) -> Iterator[psycopg.Connection[Any]]:
    """Another user's transaction, left open."""
    with psycopg.connect(url) as connection:
        connection.execute(statement)
        yield connection
        connection.rollback()


# the reply to COMMIT


@pytest.mark.parametrize("step", sample([5, 1], of=[5]))
def test_the_reply_to_commit_dropped_at_every_byte_lands_once(
    harness: PostgresHarness, postgres: PostgresServer, step: int
) -> None:
    proxy = CommitProxy(postgres.port)
    through = PostgresHarness(harness.url.replace(f":{postgres.port}/", f":{proxy.port}/"))
    outcomes = set()
    try:
        for turn in (turn for at in range(0, CommitProxy.LENGTH, step) for turn in (2 * at, 2 * at + 1)):
            offset, attempt, rows = turn // 2, f"a{turn}", [sale("2026-06-09", "eu", f"{turn}.00")]
            if not turn % 2:
                harness.ask("DROP TABLE IF EXISTS shop.revenue")  # then this COMMIT makes the table, too
            target = through.target()
            stage = stage_new(through, target, rows, DAY, attempt=attempt)
            proxy.arm_commit(offset)
            end = commit(target, stage, {plan_of(DAY).token_names[0]: turn % 2})
            assert proxy.cut, f"nothing was cut at byte {offset}"
            assert end == Landed(turn % 2 + 1), turn
            assert table(harness) == rows
            assert not harness.leftovers(REVENUE, attempt)
            assert harness.ask("SELECT count(*) FROM twice.commits WHERE attempt = %s", attempt) == [(1,)]
            outcomes.add((turn % 2, proxy.commits))
    finally:
        proxy.close()
    assert len(outcomes) == 4, "some COMMITs arrived, and some had to be sent again"


def test_without_a_reply_and_without_a_server_the_outcome_is_unknown_and_the_next_look_knows(
    harness: PostgresHarness, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_PATIENCE_S", (0.0, 0.1))
    proxy = CommitProxy(postgres.port)
    through = PostgresHarness(harness.url.replace(f":{postgres.port}/", f":{proxy.port}/"))
    target, stage = staged(through, "a")
    proxy.arm_commit(CommitProxy.REQUEST, forever=True)
    try:
        with pytest.raises(OutcomeUnknown, match="may already hold these rows") as unknown:
            commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    finally:
        proxy.close()
    assert PASSWORD not in str(unknown.value)
    assert list(generations(harness.target(), plan_of(DAY)).values()) == [1]
    assert table(harness) == ROWS


def test_a_read_back_that_fails_after_it_connected_takes_no_publish_back(harness: PostgresHarness) -> None:
    target, stage = staged(PostgresHarness(harness.url, Limits(lock=0.5)), "a")
    others: list[psycopg.Connection[Any]] = []

    def lock_the_commits(passed: Any) -> None:
        if passed is Point.AFTER_COMMIT:
            others.append(psycopg.connect(harness.url))
            others[0].execute("LOCK TABLE twice.commits IN ACCESS EXCLUSIVE MODE")

    with armed(lock_the_commits):
        end = commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    others[0].close()
    assert end == Landed(target.published(REVENUE, ()).version or 0)
    assert table(harness) == ROWS


# the server


def test_a_server_that_is_down_is_reported_without_its_password(
    harness: PostgresHarness, postgres: PostgresServer
) -> None:
    down = PostgresHarness(harness.url.replace(f":{postgres.port}/", ":1/"))
    with pytest.raises(EnvironmentProblem, match="connection postgres cannot be reached") as caught:
        down.target().published(REVENUE, ())
    assert "[connections.postgres]" in caught.value.fix
    for secret in (PASSWORD, QUOTED_PASSWORD):
        assert secret not in f"{caught.value!s} {caught.value.__cause__!r}"


def test_a_url_that_is_none_is_reported_without_its_password() -> None:
    with pytest.raises(EnvironmentProblem, match="URL of the connection shop cannot be read") as caught:
        Server("shop", "postgresql://me:s3kr1t@host:notaport/db?x")
    assert "s3kr1t" not in f"{caught.value!s} {caught.value.__cause__!r} {caught.value.__context__!r}"


def test_a_server_crash_between_stage_and_publish_is_a_lost_stage_and_a_retry_succeeds(
    harness: PostgresHarness, postgres: PostgresServer
) -> None:
    publish_rows(harness, *_prepared(harness), attempt="before")
    target, stage = staged(harness, "a", [sale("2026-06-09", "eu", "9.00")])
    postgres.restart(immediate=True)
    assert harness.ask('SELECT count(*) FROM twice."stage_a"') == [(0,)], "the crash did not empty the stage"
    with pytest.raises(StageLost, match="1 rows were staged, and the stage holds 0"):
        commit(target, stage, {plan_of(DAY).token_names[0]: 1})
    assert table(harness) == ROWS
    assert list(generations(target, plan_of(DAY)).values()) == [1]
    assert target.discard(REVENUE, "a", [DAY]) >= 1
    again, stage = staged(harness, "b", [sale("2026-06-09", "eu", "9.00")])
    assert isinstance(commit(again, stage, {plan_of(DAY).token_names[0]: 1}), Landed)
    assert table(harness) == [sale("2026-06-09", "eu", "9.00")]


def _prepared(harness: PostgresHarness) -> tuple[Any, list[Any], Any]:
    target = harness.target()
    prepare(target)
    return target, ROWS, DAY


def test_an_empty_stage_outlives_a_crash_since_nothing_was_in_it(
    harness: PostgresHarness, postgres: PostgresServer
) -> None:
    target, stage = staged(harness, "a", [])
    postgres.restart(immediate=True)
    assert isinstance(commit(target, stage, {plan_of(DAY).token_names[0]: 0}), Landed)


def test_a_lost_stage_is_not_read_as_empty_by_an_audit(harness: PostgresHarness, postgres: PostgresServer) -> None:
    target, stage = staged(harness, "a")
    target.discard(REVENUE, "a", [DAY])
    with pytest.raises(StageLost, match="are gone"):
        target.read(REVENUE, stage)


# others


def test_a_table_locked_by_someone_else_is_reported_and_nothing_changes(harness: PostgresHarness) -> None:
    target, stage = staged(PostgresHarness(harness.url, Limits(lock=0.5)), "a")
    with (
        holding(harness.url, "LOCK TABLE shop.revenue IN EXCLUSIVE MODE"),
        pytest.raises(RunError, match="locked by someone else") as caught,
    ):
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert "lock_seconds" in caught.value.fix
    assert table(harness) == []
    assert isinstance(commit(target, stage, {plan_of(DAY).token_names[0]: 0}), Landed)


def test_a_statement_that_takes_too_long_is_reported_and_nothing_changes(harness: PostgresHarness) -> None:
    target, stage = staged(PostgresHarness(harness.url, Limits(statement=0.5)), "a")
    harness.ask(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5); RETURN NEW; END'"
    )
    harness.ask("CREATE TRIGGER slow BEFORE INSERT ON shop.revenue FOR EACH ROW EXECUTE FUNCTION slow()")
    with pytest.raises(RunError, match="took too long") as caught:
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert "statement_seconds" in caught.value.fix
    assert table(harness) == []


def test_a_deadlock_is_broken_and_the_publish_lands_once(harness: PostgresHarness) -> None:
    target, stage = staged(harness, "a")
    ends: list[Any] = []
    with holding(harness.url, "SET deadlock_timeout = '30s'; LOCK TABLE shop.revenue IN SHARE MODE") as other:
        ours = threading.Thread(target=lambda: ends.append(commit(target, stage, {plan_of(DAY).token_names[0]: 0})))
        ours.start()
        _until(harness, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'shop.revenue'::regclass", 1)
        # Waits for our token while we wait for the table: the server ends one of us, and we notice first.
        other.execute("SELECT 1 FROM twice.tokens FOR UPDATE")
        other.rollback()
        ours.join(30)
    assert ends == [Landed(2)]  # the first made the table
    assert table(harness) == ROWS


def _until(harness: PostgresHarness, question: str, answer: int) -> None:
    deadline = time.monotonic() + 30
    while harness.ask(question) != [(answer,)]:
        assert time.monotonic() < deadline, f"never {answer}: {question}"


def test_a_process_that_falls_silent_in_its_publish_does_not_keep_the_slice_for_ever(harness: PostgresHarness) -> None:
    target, stage = staged(harness, "b")
    slow = Server("postgres", harness.url, Limits(idle=0.5))
    with slow.connected() as silent:
        silent.autocommit = False
        slow.begin(silent, "read committed")
        silent.execute("SELECT 1 FROM twice.tokens FOR UPDATE")
        assert isinstance(commit(target, stage, {plan_of(DAY).token_names[0]: 0}), Landed)
        with pytest.raises(psycopg.Error, match="idle-in-transaction timeout"):
            silent.execute("SELECT 1")


def test_a_constraint_that_is_checked_at_commit_is_reported_and_nothing_changes(harness: PostgresHarness) -> None:
    target, stage = staged(harness, "a", [*ROWS, *ROWS])
    harness.ask("ALTER TABLE shop.revenue ADD UNIQUE (order_date, region) DEFERRABLE INITIALLY DEFERRED")
    with pytest.raises(ResultRefused, match="violates unique constraint"):
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert table(harness) == []


def test_two_delete_and_insert_on_an_empty_slice_have_one_winner(harness: PostgresHarness) -> None:
    """READ COMMITTED alone would let both insert: the first's rows are not there yet when the second deletes."""
    (one, first), (two, second) = staged(harness, "a"), staged(harness, "b")
    app = plan_of(DAY).token_names[0]
    ends: list[Any] = []
    with holding(harness.url, "LOCK TABLE shop.revenue IN SHARE MODE"):  # both are on their way before one may write
        threads = [
            threading.Thread(target=lambda t=t, s=s: ends.append(commit(t, s, {app: 0})))
            for t, s in ((one, first), (two, second))
        ]
        for thread in threads:
            thread.start()
        _until(harness, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()", 2)
    for thread in threads:
        thread.join(30)
    assert sorted(type(end).__name__ for end in ends) == ["Landed", "Lost"]
    assert table(harness) == ROWS


# what PostgreSQL cannot keep


def test_text_with_nul_is_refused_by_the_name_of_its_column(harness: PostgresHarness) -> None:
    target = harness.target()
    prepare(target)
    frame = Rows(COLUMNS, ((date(2026, 6, 9), "e\0u", Decimal("1.00")),))
    with pytest.raises(ResultRefused, match="column region has text with the character NUL"):
        target.stage(REVENUE, frame, plan_of(DAY), "a")
    assert table(harness) == []


@pytest.mark.parametrize("name", ["x" * 64, "ä" * 32])
def test_a_name_that_would_be_cut_off_is_refused(harness: PostgresHarness, name: str) -> None:
    with pytest.raises(DeclarationError, match="64 bytes"):
        prepare(harness.target(), columns=(*COLUMNS, Column(name, "int")))
    if name.isascii():
        with pytest.raises(DeclarationError, match="64 bytes"):
            harness.target().prepare(TableName(f"shop.{name}"), Shape(COLUMNS), Layout(), False)


@pytest.mark.parametrize("name", ["one", "a.b.c"])
def test_a_table_needs_its_schema(harness: PostgresHarness, name: str) -> None:
    with pytest.raises(DeclarationError, match="does not say schema and table"):
        harness.target().published(TableName(name, "postgres"), ())


@pytest.mark.parametrize(
    ("type_", "fix"), [("map<string,int>", "to_json"), ("struct<a:int>", "to_json"), ("void", "Cast it")]
)
def test_a_type_without_a_counterpart_is_refused_with_a_way_out(harness: PostgresHarness, type_: str, fix: str) -> None:
    with pytest.raises(DeclarationError, match="extra is") as refused:
        prepare(harness.target(), columns=(*COLUMNS, Column("extra", type_)))
    assert fix in refused.value.fix


def test_a_column_dropped_by_others_after_the_stage_stops_the_publish(harness: PostgresHarness) -> None:
    target, stage = staged(harness, "a")
    harness.ask("ALTER TABLE shop.revenue DROP COLUMN region")
    with pytest.raises(TableChanged, match="the table was changed or recreated"):
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert harness.ask("SELECT count(*) FROM shop.revenue") == [(0,)]


def test_rows_that_break_a_constraint_are_refused_and_nothing_changes(harness: PostgresHarness) -> None:
    target, stage = staged(harness, "a")
    harness.ask("ALTER TABLE shop.revenue ADD CHECK (revenue > 1.5)")
    with pytest.raises(ResultRefused, match="violates check constraint"):
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert table(harness) == []


def test_text_longer_than_its_column_is_refused_and_never_cut_off(harness: PostgresHarness) -> None:
    harness.ask("CREATE SCHEMA shop")
    harness.ask("CREATE TABLE shop.revenue (order_date date, region varchar(3), revenue numeric(12,2))")
    target, stage = staged(harness, "a", [sale("2026-06-09", "europe", "1.00")])
    with pytest.raises(ResultRefused, match="too long for type character varying"):
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert table(harness) == []


# the table recreated


def test_a_table_dropped_and_recreated_has_no_tokens(harness: PostgresHarness) -> None:
    publish_rows(harness, *_prepared(harness), attempt="a")
    harness.ask("DROP TABLE shop.revenue")
    assert list(generations(harness.target(), plan_of(DAY)).values()) == [0]
    harness.ask("CREATE TABLE shop.revenue (order_date date, region text, revenue numeric(12,2))")
    assert list(generations(harness.target(), plan_of(DAY)).values()) == [0]
    assert isinstance(publish_rows(harness, *_prepared(harness), attempt="b"), Landed)
    assert table(harness) == ROWS


def test_a_database_copied_whole_keeps_its_tokens(harness: PostgresHarness, postgres: PostgresServer) -> None:
    publish_rows(harness, *_prepared(harness), attempt="a")
    copy = PostgresHarness(postgres.fresh_database(template=harness.url))
    assert list(generations(copy.target(), plan_of(DAY)).values()) == [1]
    assert table(copy) == ROWS


# names that are taken


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("CREATE VIEW shop.revenue AS SELECT 1 AS a", "is a view"),
        ("CREATE MATERIALIZED VIEW shop.revenue AS SELECT 1 AS a", "is a materialized view"),
        ("CREATE SEQUENCE shop.revenue", "is the name of something that is not a table"),
        ("CREATE TYPE shop.revenue AS (a int)", "is the name of something that is not a table"),
    ],
)
def test_a_name_that_is_no_table_is_refused_before_anything_is_computed(
    harness: PostgresHarness, made: str, what: str
) -> None:
    harness.ask("CREATE SCHEMA shop")
    harness.ask(made)
    with pytest.raises(DeclarationError, match=what) as refused:
        harness.target().prepare(REVENUE, Shape(COLUMNS), Layout(DAILY.held_in), False)
    assert refused.value.fix == "Give the task another target."


def test_a_table_made_by_hand_is_never_recreated_and_a_failed_run_binds_it_to_nothing(harness: PostgresHarness) -> None:
    harness.ask("CREATE SCHEMA shop")
    harness.ask("CREATE TABLE shop.revenue (order_date date, region text, revenue numeric(12,2))")
    harness.ask("COMMENT ON TABLE shop.revenue IS 'ours, by hand'")
    (oid,) = harness.ask("SELECT 'shop.revenue'::regclass::oid")
    target = harness.target()
    with pytest.raises(SchemaDrift):
        target.prepare(REVENUE, Shape((Column("order_date", "date"),)), Layout(DAILY.held_in), False)
    # Its scope was wrong, and nobody has seen its rows: the right one is not refused for it.
    into = target.prepare(REVENUE, Shape(COLUMNS), Layout(), False)
    target.stage(REVENUE, Rows(COLUMNS), plan_of(WHOLE), "dead", into=into)
    assert target.discard(REVENUE, "dead", [WHOLE]) > 0
    assert harness.ask("SELECT count(*) FROM twice.tables") == [(0,)]
    landed = commit(target, stage_new(harness, target, ROWS, DAY, attempt="a"), {plan_of(DAY).token_names[0]: 0})
    assert isinstance(landed, Landed)
    assert table(harness) == ROWS
    assert harness.ask("SELECT 'shop.revenue'::regclass::oid") == [oid]
    assert harness.ask("SELECT obj_description('shop.revenue'::regclass)") == [("ours, by hand",)]


def test_a_publish_that_makes_its_table_and_fails_leaves_none(harness: PostgresHarness) -> None:
    target = harness.target()
    stage = stage_new(harness, target, ROWS, DAY, attempt="a")
    with armed(crash_at(Point.BEFORE_COMMIT)), pytest.raises(Crash):
        commit(target, stage, {plan_of(DAY).token_names[0]: 0})
    assert harness.ask("SELECT to_regclass('shop.revenue')") == [(None,)]
    assert isinstance(commit(target, stage, {plan_of(DAY).token_names[0]: 0}), Landed)
    assert table(harness) == ROWS


def test_a_table_that_hides_rows_from_us_is_refused(harness: PostgresHarness, postgres: PostgresServer) -> None:
    """A DELETE of the slice would leave the rows that the policy hides."""
    harness.ask("CREATE SCHEMA shop")
    harness.ask("CREATE TABLE shop.revenue (order_date date, region text, revenue numeric(12,2))")
    harness.ask("ALTER TABLE shop.revenue ENABLE ROW LEVEL SECURITY")
    postgres.execute("DROP ROLE IF EXISTS hidden_from")
    postgres.execute("CREATE ROLE hidden_from LOGIN PASSWORD 'x'")
    for grant in (
        "CREATE SCHEMA twice AUTHORIZATION hidden_from",
        "GRANT USAGE ON SCHEMA shop TO hidden_from",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON shop.revenue TO hidden_from",
    ):
        harness.ask(grant)
    other = PostgresHarness(postgres.url(harness.url.rpartition("/")[2], "hidden_from", "x"))
    with pytest.raises(DeclarationError, match="row-level security"):
        other.target().prepare(REVENUE, Shape(COLUMNS), Layout(DAILY.held_in), False)
    harness.ask("DROP OWNED BY hidden_from")


# rights


def test_a_role_with_only_the_documented_rights_can_do_everything(
    harness: PostgresHarness, postgres: PostgresServer
) -> None:
    name = harness.url.rpartition("/")[2]
    harness.ask("CREATE SCHEMA shop")
    harness.ask("CREATE TABLE shop.revenue (order_date date, region text, revenue numeric(12,2))")
    postgres.execute("DROP ROLE IF EXISTS loader")
    postgres.execute("CREATE ROLE loader LOGIN PASSWORD 'loader'")
    loader = PostgresHarness(postgres.url(name, "loader", "loader"))
    with pytest.raises(EnvironmentProblem, match="permission denied") as denied:
        prepare(loader.target())
    assert "docs/postgres.md" in denied.value.fix
    for grant in (
        "CREATE SCHEMA twice AUTHORIZATION loader",
        "GRANT USAGE ON SCHEMA shop TO loader",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON shop.revenue TO loader",
    ):
        harness.ask(grant)
    publish_rows(loader, *_prepared(loader), attempt="a")
    assert isinstance(publish_rows(loader, loader.target(), ROWS[:1], DAY, attempt="b"), Landed)
    assert table(loader) == ROWS[:1]
    assert isinstance(publish_rows(loader, loader.target(), [], NEXT, attempt="c"), Landed)
    target, stage = staged(loader, "d")
    assert isinstance(commit(target, stage, {plan_of(DAY).token_names[0]: 0}), Lost)
    assert target.discard(REVENUE, "d", [DAY]) >= 1
    harness.ask("DROP OWNED BY loader")


def test_commits_that_gave_no_token_its_present_generation_are_forgotten(harness: PostgresHarness) -> None:
    target = harness.target()
    prepare(target)
    publish_rows(harness, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="kept")
    for attempt in ("a", "b", "c"):
        publish_rows(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt=attempt)
    before, version = target.tokens(REVENUE, ""), target.published(REVENUE, ()).version
    assert target.forget(REVENUE, datetime.now(timezone.utc) - timedelta(days=1)) == 0
    assert target.forget(REVENUE, datetime.now(timezone.utc) + timedelta(days=1)) == 2
    assert target.forget(REVENUE, datetime.now(timezone.utc) + timedelta(days=1)) == 0
    kept = harness.ask("SELECT attempt FROM twice.commits ORDER BY version")
    assert [attempt.partition("-")[0] for (attempt,) in kept] == ["setup", "kept", "c"]  # the first made the table
    assert harness.ask("SELECT count(*) FROM twice.generations") == [(3,)]
    assert (target.tokens(REVENUE, ""), target.published(REVENUE, ()).version) == (before, version)
    assert target.forget(TableName("shop.missing"), datetime.now(timezone.utc)) == 0
    assert isinstance(publish_rows(harness, target, [], DAY, attempt="d"), Landed)
