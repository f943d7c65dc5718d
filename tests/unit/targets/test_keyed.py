"""Which of two rows of a key stays: a total order, in a batch and between batches."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from twice.core.slice import WHOLE
from twice.core.write import UpsertRows
from twice.targets.keyed import Row, key_of, survivors, upsert

NAMES = ("id", "seen", "amount")
NEWEST = UpsertRows((WHOLE,), ("id",), "seen")
ROWS = st.tuples(st.integers(1, 3), st.one_of(st.none(), st.integers(1, 2)), st.integers(1, 4))
BATCHES = st.lists(st.lists(ROWS, max_size=6), min_size=1, max_size=5)


def merged(batches: list[list[Row]]) -> tuple[Row, ...]:
    table: tuple[Row, ...] = ()
    for batch in batches:
        best, _ = survivors(batch, NAMES, NEWEST)
        found = upsert(best, table, NAMES, NEWEST, lambda _: True)
        key = key_of(NAMES, NEWEST)
        table = (*(row for row in table if key(row) not in found.gone), *found.written)
    return tuple(sorted(table, key=repr))


@given(BATCHES.flatmap(lambda batches: st.tuples(st.just(batches), st.permutations(batches))))
def test_any_order_of_slices_gives_the_same_table(orders: tuple[list[list[Row]], list[list[Row]]]) -> None:
    one, other = orders
    assert merged(one) == merged(other) == merged([list(chain.from_iterable(one))])


@given(st.lists(ROWS, max_size=8))
def test_a_tie_is_counted_for_each_key_whose_newest_rows_differ(rows: list[Row]) -> None:
    best, ties = survivors(rows, NAMES, NEWEST)
    newest = [{row for row in rows if row[0] == winner[0] and row[1] == winner[1]} for winner in best]
    assert ties == sum(len(equal) > 1 for equal in newest)
