"""Columns that the server fills, decimals that get more digits, and tables that are exchanged: what depends on them and
what they keep. With a real server. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from tests.contracts.exchange_suite import NEW, OLD, OWNED, SIDE, commit_exchange, exchange_plan, fill, stage_exchange
from tests.contracts.postgres_harness import PostgresHarness
from tests.contracts.target_suite import (
    COLUMNS,
    DAILY,
    DAY,
    NEXT,
    REVENUE,
    THIRD,
    commit,
    generations,
    plan_of,
    prepare,
    publish,
    sale,
)
from tests.postgres_server import PostgresServer

from twice.core.ports import Column, Landed, Shape
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import Kept, Layout, ReplaceTable, UpsertRows
from twice.errors import DeclarationError, SchemaDrift, TableChanged
from twice.targets.memory.rows import Rows
from twice.targets.postgres.read.snapshot import Snapshots
from twice.targets.postgres.server.names import relation_of
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.table import find
from twice.targets.postgres.write.exchange.carry import carry_over
from twice.targets.postgres.write.exchange.dependents import refuse_dependents

LAYOUT = Layout(DAILY.held_in)


@pytest.fixture
def harness(one_database: str) -> PostgresHarness:
    harness = PostgresHarness(one_database, Limits(lock=5, statement=60))
    harness.ask("DROP SCHEMA IF EXISTS shop, twice CASCADE")
    return harness


@pytest.fixture
def served(harness: PostgresHarness) -> PostgresHarness:
    """A table of somebody's with columns that the server fills."""
    harness.ask("CREATE SCHEMA shop")
    harness.ask(
        "CREATE TABLE shop.revenue (id bigserial PRIMARY KEY, order_date date, region text, revenue numeric(12,2),"
        " number int GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT now(),"
        " cents numeric GENERATED ALWAYS AS (revenue * 100) STORED)"
    )
    return harness


def published(harness: PostgresHarness, rows: Any, kind: str = "run", attempt: str = "a") -> Landed:
    target, plan = harness.target(), plan_of(DAY)
    into = target.prepare(REVENUE, Shape(COLUMNS), LAYOUT, False)
    assert into.shape.columns == COLUMNS
    expected = generations(target, plan)
    staged = target.stage(REVENUE, Rows(COLUMNS, tuple(rows)), plan, attempt, into=into)
    moved = {name: generation + 1 for name, generation in expected.items()}
    end = target.commit(staged, expected, CommitNote(attempt, kind, moved))  # type: ignore[arg-type]
    assert isinstance(end, Landed)
    return end


def test_columns_with_a_default_that_the_result_does_not_give_are_left_to_the_server(served: PostgresHarness) -> None:
    published(served, [sale("2026-06-09", "eu", "1.50")])
    ((id_, number, made, cents),) = served.ask("SELECT id, number, created_at IS NOT NULL, cents FROM shop.revenue")
    assert (id_, number, made, cents) == (1, 1, True, Decimal(150))


def test_what_the_server_fills_is_not_compared_by_a_restatement(served: PostgresHarness) -> None:
    published(served, [sale("2026-06-09", "eu", "1.50")])
    same = published(served, [sale("2026-06-09", "eu", "1.50")], kind="restate", attempt="b")
    assert same.changed == frozenset()
    other = published(served, [sale("2026-06-09", "eu", "1.51")], kind="restate", attempt="c")
    assert other.changed == frozenset({"2026-06-09"})


def test_a_merge_leaves_what_the_server_has_filled(served: PostgresHarness) -> None:
    served.ask("ALTER TABLE shop.revenue ADD UNIQUE (order_date, region)")
    plan = replace(plan_of(DAY), write=UpsertRows((DAY,), ("order_date", "region")))
    for attempt, amount in (("a", "1.50"), ("b", "2.50")):
        target = served.target()
        into = target.prepare(REVENUE, Shape(COLUMNS), Layout(key=("order_date", "region"), any_partitions=True), False)
        rows = Rows(COLUMNS, (sale("2026-06-09", "eu", amount),))
        staged = target.stage(REVENUE, rows, plan, attempt, into=into)
        assert isinstance(commit(target, staged, generations(target, plan)), Landed)
    assert served.ask("SELECT id, number, cents FROM shop.revenue") == [(1, 1, Decimal(250))]


def test_a_column_without_a_default_is_missing_still(served: PostgresHarness) -> None:
    served.ask("ALTER TABLE shop.revenue ADD COLUMN area text")
    with pytest.raises(SchemaDrift, match=r"area \(string\) is missing"):
        published(served, [])


def test_a_decimal_gets_more_digits_in_place_with_evolve(harness: PostgresHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
    wider = (*COLUMNS[:2], Column("revenue", "decimal(14,2)"))
    with pytest.raises(SchemaDrift, match="the next run widens it to decimal\\(14,2\\)"):
        target.prepare(REVENUE, Shape(wider), LAYOUT, False)
    into = target.prepare(REVENUE, Shape(wider), LAYOUT, True)
    file = "SELECT pg_relation_filenode('shop.revenue')"
    before = harness.ask(file)
    plan, row = plan_of(NEXT), (date(2026, 6, 10), "eu", Decimal("123456789012.34"))
    staged = target.stage(REVENUE, Rows(wider, (row,)), plan, "b", into=into)
    assert isinstance(commit(target, staged, generations(target, plan)), Landed)
    assert harness.seen(harness.target(), REVENUE) == [sale("2026-06-09", "eu", "1.00"), row]
    assert harness.ask(file) == before  # not rewritten
    for type_ in ("decimal(14,3)", "double", "string"):
        with pytest.raises(SchemaDrift, match="cast it to"):
            target.prepare(REVENUE, Shape((*COLUMNS[:2], Column("revenue", type_))), LAYOUT, True)


@pytest.fixture
def two_days(harness: PostgresHarness) -> PostgresHarness:
    target = harness.target()
    prepare(target)
    publish(harness, target, OLD[:1], DAY, attempt="a")
    publish(harness, target, OLD[1:], NEXT, attempt="b")
    return harness


@pytest.fixture(scope="module")
def depended_on(postgres: PostgresServer) -> Iterator[PostgresHarness]:
    """One table and its side table for all that only ask."""
    with postgres.lent_database() as url:
        harness = PostgresHarness(url)
        target = harness.target()
        prepare(target)
        fill(harness, target, NEW, DAY, NEXT)
        yield harness


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE VIEW shop.all_of_it AS SELECT * FROM shop.revenue", "the view shop.all_of_it refers to it"),
        (
            "CREATE MATERIALIZED VIEW shop.kept AS SELECT order_date FROM shop.revenue",
            "the view shop.kept refers to it",
        ),
        (
            "ALTER TABLE shop.revenue ADD UNIQUE (order_date);"
            "CREATE TABLE shop.child (d date REFERENCES shop.revenue (order_date))",
            r"the foreign key shop.child.child_d_fkey refers to it",
        ),
        (
            "CREATE FUNCTION shop.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
            "CREATE TRIGGER t AFTER INSERT ON shop.revenue FOR EACH ROW EXECUTE FUNCTION shop.f()",
            "its trigger t would not be on the new table",
        ),
        ("CREATE POLICY p ON shop.revenue USING (true)", "its policy p would not be on the new table"),
        ("CREATE PUBLICATION sent FOR TABLE shop.revenue", "the publication sent sends it to others"),
        ("CREATE TABLE shop.part () INHERITS (shop.revenue)", "it is a part of, or has parts in, shop.part"),
        (
            "CREATE STATISTICS shop.stats ON order_date, region FROM shop.revenue",
            "its extended statistics stats would not be on the new table",
        ),
        ("CREATE RULE r AS ON INSERT TO shop.revenue DO ALSO NOTHING", "its rule r would not be on the new table"),
        ("ALTER TABLE shop.revenue ADD COLUMN id bigserial", "the server fills id, whose values would be regenerated"),
        ("CREATE INDEX by_region ON shop.revenue (region)", "its index by_region is on region"),
        (
            "ALTER TABLE shop.revenue ADD CONSTRAINT known CHECK (region <> '')",
            "its constraint known is on region",
        ),
        ("ALTER TABLE shop.revenue ENABLE ROW LEVEL SECURITY", "it has row-level security, which the new table"),
        ("CREATE PUBLICATION everything FOR ALL TABLES", "the publication everything sends it to others"),
        ("CREATE PUBLICATION of_shop FOR TABLES IN SCHEMA shop", "the publication of_shop sends it to others"),
        ("ALTER TABLE shop.revenue SET UNLOGGED", "it is UNLOGGED, and the new table would not be"),
    ],
)
def test_a_table_on_which_something_depends_is_not_exchanged(
    depended_on: PostgresHarness, statement: str, why: str
) -> None:
    with psycopg.connect(depended_on.url) as connection:
        connection.execute(statement)
        table, side = (find(connection, relation_of(name)) for name in (REVENUE, SIDE))
        assert table is not None and side is not None
        with pytest.raises(DeclarationError, match=why) as refused:
            refuse_dependents(connection, table, {name.lower() for name in side.names})
            carry_over(connection, table, side)
        connection.rollback()
    assert refused.value.now == "The table is unchanged."


def test_what_came_to_depend_on_it_after_the_stage_stops_the_exchange(two_days: PostgresHarness) -> None:
    target = two_days.target()
    staged = stage_exchange(target, DAY, NEXT, at=fill(two_days, target, NEW, DAY, NEXT))
    two_days.ask("CREATE VIEW shop.all_of_it AS SELECT * FROM shop.revenue")
    with pytest.raises(DeclarationError, match=r"the view shop.all_of_it refers to it"):
        commit_exchange(target, staged)
    assert two_days.seen(two_days.target(), REVENUE) == OLD


def test_a_rebuild_asks_before_it_fills(two_days: PostgresHarness) -> None:
    two_days.target().check_exchange(REVENUE)
    two_days.ask("CREATE VIEW shop.all_of_it AS SELECT * FROM shop.revenue")
    with pytest.raises(DeclarationError, match="cannot be exchanged for another table"):
        two_days.target().check_exchange(REVENUE)


def test_an_exchanged_table_keeps_rights_indexes_constraints_and_words(two_days: PostgresHarness) -> None:
    for statement in (
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader",
        "GRANT SELECT ON shop.revenue TO reader WITH GRANT OPTION",
        "GRANT UPDATE (revenue) ON shop.revenue TO PUBLIC",
        "CREATE INDEX by_revenue ON shop.revenue (revenue DESC) WHERE revenue > 0",
        "ALTER TABLE shop.revenue ADD CONSTRAINT sane CHECK (revenue > -1)",
        "ALTER TABLE shop.revenue ALTER COLUMN order_date SET NOT NULL",
        "ALTER TABLE shop.revenue SET (fillfactor = 70)",
        "COMMENT ON TABLE shop.revenue IS 'by day'",
        "COMMENT ON COLUMN shop.revenue.revenue IS 'in euros'",
        "ALTER TABLE shop.revenue REPLICA IDENTITY FULL",
    ):
        two_days.ask(statement)
    names = (
        "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'shop.revenue'::regclass ORDER BY 1"
    )
    before = two_days.ask(names)
    target = two_days.target()
    staged = stage_exchange(target, DAY, NEXT, at=fill(two_days, target, NEW, DAY, NEXT))
    assert isinstance(commit_exchange(target, staged), Landed)
    assert two_days.ask(names) == before
    asked = {
        "SELECT has_table_privilege('reader', 'shop.revenue', 'SELECT WITH GRANT OPTION')": True,
        "SELECT has_column_privilege('reader', 'shop.revenue', 'revenue', 'UPDATE')": True,
        "SELECT has_table_privilege('reader', 'shop.revenue', 'DELETE')": False,
        "SELECT conname::text FROM pg_constraint WHERE conrelid = 'shop.revenue'::regclass AND contype = 'c'": "sane",
        "SELECT attnotnull FROM pg_attribute WHERE attrelid = 'shop.revenue'::regclass AND attnum = 1": True,
        "SELECT reloptions::text FROM pg_class WHERE oid = 'shop.revenue'::regclass": "{fillfactor=70}",
        "SELECT obj_description('shop.revenue'::regclass, 'pg_class')": "by day",
        "SELECT relreplident::text FROM pg_class WHERE oid = 'shop.revenue'::regclass": "f",
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'revenue%rebuild%' OR relname LIKE 'revenue%old%'": 0,
        "SELECT count(*) FROM twice.tables": 1,
    }
    assert {statement: two_days.ask(statement)[0][0] for statement in asked} == asked
    two_days.ask("DROP OWNED BY reader; DROP ROLE reader")


def test_a_table_that_tells_of_its_rows_by_an_index_does_so_by_the_same_one(two_days: PostgresHarness) -> None:
    two_days.ask("ALTER TABLE shop.revenue ALTER COLUMN order_date SET NOT NULL")
    two_days.ask("CREATE UNIQUE INDEX one_day ON shop.revenue (order_date)")
    two_days.ask("ALTER TABLE shop.revenue REPLICA IDENTITY USING INDEX one_day")
    target = two_days.target()
    staged = stage_exchange(target, DAY, NEXT, at=fill(two_days, target, NEW, DAY, NEXT))
    assert isinstance(commit_exchange(target, staged), Landed)
    found = (
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'shop.revenue'::regclass AND indisreplident"
    )
    assert two_days.ask(found) == [("shop.one_day",)]


@pytest.mark.parametrize(
    ("kept", "row", "goes"),
    [
        (Kept(owned=(DAY, NEXT)), "('2026-06-10', 'us', 4)", True),
        (Kept(owned=(DAY, NEXT)), "('2026-06-11', 'us', 4)", False),
        (Kept(owned=(DAY, NEXT)), "('2026-06-08', 'us', 4)", False),
        (Kept(owned=(DAY, NEXT)), "(NULL, 'us', 4)", False),
        (Kept(owned=(DAY, THIRD)), "('2026-06-10', 'us', 4)", False),
        (Kept(key=("order_date",)), "('2026-06-10', 'us', 4)", True),
        (Kept(key=("order_date",)), "(NULL, 'us', 4)", False),
        (Kept(key=("order_date",), lost=1), "('2026-06-11', 'us', 4)", True),
        (Kept(lost=2), "('2026-06-10', 'us', 4)", False),
        (None, "('2026-06-11', 'us', 4)", True),
    ],
)
def test_a_row_that_others_insert_after_the_losses_were_counted_is_not_lost(
    two_days: PostgresHarness, kept: Kept | None, row: str, goes: bool
) -> None:
    """Whoever inserts by hand moves no version that an exchange could compare."""
    if kept == Kept(owned=(DAY, THIRD)):
        two_days.ask("DELETE FROM shop.revenue WHERE order_date = '2026-06-10'")
    target = two_days.target()
    plan = exchange_plan(DAY, NEXT, at=fill(two_days, target, NEW, DAY, NEXT))
    assert isinstance(plan.write, ReplaceTable)
    staged = target.stage(REVENUE, None, replace(plan, write=replace(plan.write, kept=kept)), "exchange")
    two_days.ask(f"INSERT INTO shop.revenue VALUES {row}")
    if goes:
        assert isinstance(commit_exchange(target, staged), Landed)
        return
    with pytest.raises(TableChanged, match="others wrote rows to .* that would be gone"):
        commit_exchange(target, staged)
    assert two_days.ask("SELECT count(*) FROM shop.revenue WHERE region = 'us'") == [(1,)]


def test_a_reader_that_is_under_way_is_waited_for_and_reads_the_old_rows(two_days: PostgresHarness) -> None:
    target = two_days.target()
    staged = stage_exchange(target, DAY, NEXT, at=fill(two_days, target, NEW, DAY, NEXT))
    ended: list[Any] = []
    with psycopg.connect(two_days.url) as reader:
        assert len(reader.execute("SELECT * FROM shop.revenue").fetchall()) == 2
        exchanging = threading.Thread(target=lambda: ended.append(commit_exchange(target, staged)))
        exchanging.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'shop.revenue'::regclass AND NOT granted"
        while two_days.ask(waiting) == [(0,)]:
            assert exchanging.is_alive()
        assert reader.execute("SELECT revenue::text FROM shop.revenue ORDER BY 1").fetchall() == [("1.00",), ("2.00",)]
        reader.commit()
    exchanging.join(30)
    assert isinstance(ended[0], Landed)


def test_our_own_snapshot_from_before_an_exchange_never_reads_the_other_table(two_days: PostgresHarness) -> None:
    """A name means the present table, also in an older snapshot: it would show those rows of the new one that were
    filled before the snapshot was taken."""
    target = two_days.target()
    at = fill(two_days, target, NEW[:1], DAY)
    server = Server("postgres", two_days.url, Limits(lock=5, statement=60))
    snapshots = Snapshots(server)
    taken = snapshots._take()
    at = fill(two_days, target, NEW[1:], NEXT, attempt="more")
    assert isinstance(commit_exchange(target, stage_exchange(target, DAY, NEXT, at=at)), Landed)
    assert taken.open(relation_of(REVENUE)) is None
    taken.connection.close()
    snapshots.close()


def test_the_side_table_of_a_name_that_is_too_long_is_refused(harness: PostgresHarness) -> None:
    table = TableName(f"shop.{'x' * 60}__rebuild")
    with pytest.raises(DeclarationError, match="PostgreSQL keeps 63"):
        harness.target().published(table, ())


def test_a_side_table_dropped_after_the_stage_stops_the_exchange(two_days: PostgresHarness) -> None:
    target = two_days.target()
    staged = stage_exchange(target, DAY, NEXT, at=fill(two_days, target, NEW, DAY, NEXT))
    two_days.target().drop_side(SIDE, OWNED)
    with pytest.raises(TableChanged, match="was filled further, or dropped"):
        commit_exchange(target, staged)
    assert two_days.seen(two_days.target(), REVENUE) == OLD
