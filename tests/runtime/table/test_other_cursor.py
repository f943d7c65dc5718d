"""How far one column was read says nothing of another, nor of another table's: a mark belongs to its cursor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.conftest import RuntimeSetup

from twice import Since, append_once, merge, read, task
from twice.core.ports import Column
from twice.core.results.run import Outcome
from twice.core.since import SINCE
from twice.core.table.token import CommitNote, Cursor
from twice.core.task import Strategy, TableName, Task
from twice.errors import DeclarationError
from twice.ledgers.ledger import Ledger
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.targets.memory.rows import Rows

CHANGES = TableName("shop.changes")
RETURNS = TableName("shop.returns")
COLUMNS = (Column("id", "bigint"), Column("made", "bigint"), Column("seen", "bigint"))
WRITES = pytest.mark.parametrize("write", [append_once(), merge("id", newest_by="made")], ids=lambda each: each.name)


def copy(runtime: RuntimeSetup, cursor: str, write: Strategy, table: TableName = CHANGES) -> Task:
    runtime.code[0] = f"{cursor} of {table}"  # as the hash of the code has it
    inputs = {"changes": read(str(table), by=cursor)}
    declare = task("shop.revenue", scope=Since(cursor, initial=0), inputs=inputs, write=write, name="copy")
    return runtime.declare(declare(_same))


def _same(changes: Rows) -> Rows:
    return changes


@pytest.fixture
def read_by_made(runtime: RuntimeSetup, write: Strategy) -> RuntimeSetup:
    """Ten rows, read up to the last by `made`; then four with a small `seen`."""
    first = tuple((id_, id_, 100 - id_) for id_ in range(1, 11))
    runtime.put(CHANGES, Rows(COLUMNS, first))
    run_task(runtime.context, copy(runtime, "made", write), (SINCE,))
    runtime.put(CHANGES, Rows(COLUMNS, (*first, *((id_, id_, 5) for id_ in range(11, 15)))))
    return runtime


@WRITES
def test_rows_are_not_read_by_another_cursor_from_where_the_first_one_was(
    read_by_made: RuntimeSetup, write: Strategy
) -> None:
    runtime, before = read_by_made, read_by_made.revenue
    declared = copy(runtime, "seen", write)
    with pytest.raises(DeclarationError) as refused:
        run_task(runtime.context, declared, (SINCE,))
    assert "written for made of shop.changes, and the task now reads seen of shop.changes" in str(refused.value)
    assert "twice mark reset copy --to 10 --reason" in str(refused.value)
    with pytest.raises(DeclarationError, match="was written for made of shop.changes"):
        explain(runtime.context, declared, SINCE)
    assert runtime.revenue == before
    assert run_task(runtime.context, copy(runtime, "made", write), (SINCE,)).outcome is Outcome.PUBLISHED


@WRITES
def test_nor_with_a_ledger_that_was_lost(read_by_made: RuntimeSetup, write: Strategy) -> None:
    runtime, known = read_by_made, read_by_made.ledger
    fresh = Ledger.open(f"sqlite:///{runtime.context.root}/fresh.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=fresh)
    known.close()
    declared = copy(runtime, "seen", write)
    rebuild_ledger(runtime.context, None)
    with pytest.raises(DeclarationError, match="was written for made of shop.changes"):
        run_task(runtime.context, declared, (SINCE,))


@WRITES
@pytest.mark.parametrize("to", ["10", "3"])
def test_a_person_says_where_the_new_cursor_is_also_at_the_same_mark(
    read_by_made: RuntimeSetup, write: Strategy, to: str
) -> None:
    runtime = read_by_made
    declared = copy(runtime, "seen", write)
    reset_mark(runtime.context, declared, Reset(to, "ana", "made is called seen now"))
    assert run_task(runtime.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED
    attempts = len(runtime.ledger.attempts("copy"))
    assert run_task(runtime.context, declared, (SINCE,)).outcome is Outcome.NOTHING_NEW
    assert len(runtime.ledger.attempts("copy")) == attempts + 1


@WRITES
def test_the_mark_is_shown_with_the_column_that_it_counts(read_by_made: RuntimeSetup, write: Strategy) -> None:
    runtime = read_by_made
    declared = copy(runtime, "seen", write)
    shown = show_mark(runtime.context, declared)
    assert (shown.cursor, shown.at) == ("made", "10")
    assert shown.unclear is not None and "twice mark reset copy --to 10" in shown.unclear
    before, after = reset_mark(runtime.context, declared, Reset("10", "ana", "made is called seen now"))
    assert (before.cursor, after.cursor, after.unclear) == ("made", "seen", None)
    assert show_mark(runtime.context, declared) == after


@WRITES
def test_other_code_is_no_other_cursor(read_by_made: RuntimeSetup, write: Strategy) -> None:
    runtime = read_by_made
    declared = copy(runtime, "made", write)
    runtime.code[0] = "other code"
    assert run_task(runtime.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED


@WRITES
def test_the_same_table_spelled_with_its_table_system_is_no_other_cursor(
    read_by_made: RuntimeSetup, write: Strategy
) -> None:
    runtime = read_by_made
    declared = copy(runtime, "made", write, TableName(CHANGES.name, "delta"))
    shown = show_mark(runtime.context, declared)
    assert (shown.source, shown.unclear) == ("shop.changes", None)
    assert run_task(runtime.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED
    note = runtime.target._tables["shop.revenue"].versions[-1].note
    assert note is not None
    assert note.cursor == Cursor("made", "shop.changes")


@WRITES
def test_a_mark_that_was_written_with_the_longer_spelling_is_of_the_same_table(
    read_by_made: RuntimeSetup, write: Strategy
) -> None:
    runtime = read_by_made
    versions = runtime.target._tables["shop.revenue"].versions
    note = versions[-1].note
    assert note is not None
    versions[-1] = replace(versions[-1], note=replace(note, cursor=Cursor("made", "delta:shop.changes")))
    declared = copy(runtime, "made", write)
    runtime.code[0] = "other code"
    assert run_task(runtime.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED


@WRITES
def test_rows_of_another_table_are_not_read_from_where_the_first_one_was(
    read_by_made: RuntimeSetup, write: Strategy
) -> None:
    """The returns have small numbers: gone on from the mark of the changes, they would never be read."""
    runtime, before = read_by_made, read_by_made.revenue
    runtime.put(RETURNS, Rows(COLUMNS, ((21, 1, 1), (22, 2, 2))))
    declared = copy(runtime, "made", write, RETURNS)
    with pytest.raises(DeclarationError) as refused:
        run_task(runtime.context, declared, (SINCE,))
    assert "written for made of shop.changes, and the task now reads made of shop.returns" in str(refused.value)
    assert runtime.revenue == before
    shown = show_mark(runtime.context, declared)
    assert (shown.cursor, shown.source, shown.at) == ("made", "shop.changes", "10")
    reset_mark(runtime.context, declared, Reset("0", "ana", "returns begin at 0"))
    assert run_task(runtime.context, declared, (SINCE,)).outcome is Outcome.PUBLISHED
    assert {row[0] for row in runtime.revenue} >= {row[0] for row in before}
    assert 21 in {row[0] for row in runtime.revenue}


def test_a_mark_that_does_not_name_its_table_is_believed() -> None:
    """Commits of an earlier twice name the column alone."""
    assert Cursor("made", None).same_as(Cursor("made", "shop.returns"))
    assert not Cursor("made", None).same_as(Cursor("seen", "shop.returns"))
    note = CommitNote("a", "run", {"t": 5}, cursor=Cursor("made", "shop.changes"))
    assert CommitNote.from_json(note.to_json()) == note
    without = note.to_json().replace(',"source":"shop.changes"', "")
    assert without != note.to_json()
    assert CommitNote.from_json(without) == replace(note, cursor=Cursor("made", None))
