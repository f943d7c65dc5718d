"""How far one column was read says nothing of another: a mark belongs to its cursor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twice import Since, append_once, merge, read, task
from twice.core.ports import Column
from twice.core.results.run import Outcome
from twice.core.since import SINCE
from twice.core.task import Strategy, TableName, Task
from twice.errors import DeclarationError
from twice.ledgers.ledger import Ledger
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.rebuild import rebuild
from twice.targets.memory.rows import Rows

from .conftest import Bench

CHANGES = TableName("shop.changes")
COLUMNS = (Column("id", "bigint"), Column("made", "bigint"), Column("seen", "bigint"))
WRITES = pytest.mark.parametrize("write", [append_once(), merge("id", newest_by="made")], ids=lambda each: each.name)


def copy(bench: Bench, cursor: str, write: Strategy) -> Task:
    bench.code[0] = cursor  # as the hash of the code has it
    inputs = {"changes": read("shop.changes", by=cursor)}
    declare = task("shop.revenue", scope=Since(cursor, initial=0), inputs=inputs, write=write, name="copy")
    return bench.declare(declare(_same))


def _same(changes: Rows) -> Rows:
    return changes


@pytest.fixture
def read_by_made(bench: Bench, write: Strategy) -> Bench:
    """Ten rows, read up to the last by `made`; then four with a small `seen`."""
    first = tuple((id_, id_, 100 - id_) for id_ in range(1, 11))
    bench.put(CHANGES, Rows(COLUMNS, first))
    run_task(bench.context, copy(bench, "made", write), (SINCE,))
    bench.put(CHANGES, Rows(COLUMNS, (*first, *((id_, id_, 5) for id_ in range(11, 15)))))
    return bench


@WRITES
def test_rows_are_not_read_by_another_cursor_from_where_the_first_one_was(read_by_made: Bench, write: Strategy) -> None:
    bench, before = read_by_made, read_by_made.revenue
    declared = copy(bench, "seen", write)
    with pytest.raises(DeclarationError) as refused:
        run_task(bench.context, declared, (SINCE,))
    assert "the mark in the table was written for the column made, and the task now uses seen" in str(refused.value)
    assert "twice mark reset copy --to 10 --reason" in str(refused.value)
    with pytest.raises(DeclarationError, match="was written for the column made"):
        explain(bench.context, declared, SINCE)
    assert bench.revenue == before
    assert run_task(bench.context, copy(bench, "made", write), (SINCE,)).outcome is Outcome.PUBLISHED


@WRITES
def test_nor_with_a_ledger_that_was_lost(read_by_made: Bench, write: Strategy) -> None:
    bench, known = read_by_made, read_by_made.ledger
    fresh = Ledger.open(f"sqlite:///{bench.context.root}/fresh.db", bench.clock)
    bench.context = replace(bench.context, ledger=fresh)
    known.close()
    declared = copy(bench, "seen", write)
    rebuild(bench.context, None)
    with pytest.raises(DeclarationError, match="was written for the column made"):
        run_task(bench.context, declared, (SINCE,))


@WRITES
@pytest.mark.parametrize("to", ["10", "3"])
def test_a_person_says_where_the_new_cursor_is_also_at_the_same_mark(
    read_by_made: Bench, write: Strategy, to: str
) -> None:
    bench = read_by_made
    declared = copy(bench, "seen", write)
    reset_mark(bench.context, declared, Reset(to, "ana", "made is called seen now"))
    assert run_task(bench.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED
    attempts = len(bench.ledger.attempts("copy"))
    assert run_task(bench.context, declared, (SINCE,)).outcome is Outcome.NOTHING_NEW
    assert len(bench.ledger.attempts("copy")) == attempts + 1


@WRITES
def test_the_mark_is_shown_with_the_column_that_it_counts(read_by_made: Bench, write: Strategy) -> None:
    bench = read_by_made
    declared = copy(bench, "seen", write)
    shown = show_mark(bench.context, declared)
    assert (shown.cursor, shown.at) == ("made", "10")
    assert shown.unclear is not None and "twice mark reset copy --to 10" in shown.unclear
    before, after = reset_mark(bench.context, declared, Reset("10", "ana", "made is called seen now"))
    assert (before.cursor, after.cursor, after.unclear) == ("made", "seen", None)
    assert show_mark(bench.context, declared) == after


@WRITES
def test_other_code_is_no_other_cursor(read_by_made: Bench, write: Strategy) -> None:
    bench = read_by_made
    declared = copy(bench, "made", write)
    bench.code[0] = "other code"
    assert run_task(bench.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED
