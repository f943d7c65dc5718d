"""The check of the soak of kills sees what it is there to see. No JVM: the tables are made here."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.soak.kill_project import BY_DAY, INCREMENTAL, KEYED, WHOLE, Row, rows_of, wrong_rows

SOURCE = [row for at in range(3) for row in rows_of(at)]
MARK = max(row[2] for row in SOURCE)


def tables() -> dict[str, Counter[Row]]:
    """As they are when all went well; of a tie the greater amount won."""
    made = {name: Counter(SOURCE) for name in (*BY_DAY, *INCREMENTAL, *WHOLE)}
    made["log"] = Counter(row for row in SOURCE if row[2] < MARK)
    for name in KEYED:
        best = {(row[0], row[2] if name == "inserted" else None): row for row in sorted(SOURCE, key=lambda r: r[2:])}
        made[name] = Counter(best.values())
    return made


def exchanged(held: Counter[Row], old: Row, new: Row) -> Counter[Row]:
    return held - Counter([old]) + Counter([new])


def tie(at: int, next_day: bool) -> tuple[Row, Row]:
    """The rows of a tie, the winner of `tables` first: of one day, or of two."""
    id_ = 10_000 * (at + 1) + (2_000 if next_day else 1_000)
    winner, loser = sorted((row for row in SOURCE if row[0] == id_), key=lambda row: -row[3])
    return winner, loser


def test_tables_that_are_right_pass() -> None:
    assert wrong_rows(SOURCE, tables()) == []


@pytest.mark.parametrize("name", [*BY_DAY, *INCREMENTAL, *WHOLE])
def test_a_row_that_is_missing_or_there_twice_is_seen(name: str) -> None:
    held = tables()
    row = next(iter(held[name]))
    assert len(wrong_rows(SOURCE, held | {name: held[name] - Counter([row])})) >= 1
    assert len(wrong_rows(SOURCE, held | {name: held[name] + Counter([row])})) >= 1


@pytest.mark.parametrize("name", ["merged", "inserted"])
def test_another_winner_of_a_tie_inside_a_batch_is_seen(name: str) -> None:
    held = tables()
    assert wrong_rows(SOURCE, held | {name: exchanged(held[name], *tie(1, next_day=False))}) != []


@pytest.mark.parametrize("name", KEYED)
def test_between_batches_either_may_win_but_never_both_nor_none(name: str) -> None:
    held, (winner, loser) = tables(), tie(1, next_day=True)
    assert wrong_rows(SOURCE, held | {name: exchanged(held[name], winner, loser)}) == []
    assert wrong_rows(SOURCE, held | {name: held[name] + Counter([loser])}) != []
    assert wrong_rows(SOURCE, held | {name: held[name] - Counter([winner])}) != []


def test_a_project_of_an_older_soak_has_no_ties() -> None:
    ids = Counter((row[0], row[2]) for row in rows_of(2, ties=False))
    assert set(ids.values()) == {1}
