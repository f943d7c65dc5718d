"""An upsert on plain rows: which of a batch survive, and what they do to the rows that are there. Pure.

The memory target works by it, and it is the model that other targets are compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.table.mark import version_of_value
from twice.core.write import Changes, UpsertRows
from twice.errors import NullKey, ResultRefused

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Upserted:
    """`written` are the rows to put in, `gone` the keys whose old rows go out."""

    written: tuple[Row, ...]
    gone: frozenset[Row]
    changes: Changes


def key_of(names: Sequence[str], verb: UpsertRows) -> Callable[[Row], Row]:
    at = [_place(names, column) for column in verb.key]
    return lambda row: tuple(row[place] for place in at)


def survivors(rows: Iterable[Row], names: Sequence[str], verb: UpsertRows) -> tuple[tuple[Row, ...], int]:
    """One row of each key, the same whatever order the rows come in; and how many of them won a tie."""
    key, rank = key_of(names, verb), _rank(names, verb)
    given: dict[Row, list[Row]] = {}
    for row in rows:
        if verb.null_keys == "refuse" and None in key(row):
            raise null_key(verb)
        given.setdefault(key(row), []).append(row)
    best = {value: max(some, key=lambda row: (rank(row), content(row))) for value, some in given.items()}
    ties = sum(any(rank(row) == rank(best[at]) and row != best[at] for row in some) for at, some in given.items())
    return tuple(best.values()), 0 if verb.newest_by is None else ties


def content(row: Row) -> str:
    """What decides between rows that are equally new: any total order, the same in a batch and between two."""
    return repr(row)


def upsert(
    staged: Sequence[Row], there: Sequence[Row], names: Sequence[str], verb: UpsertRows, owned: Callable[[Row], bool]
) -> Upserted:
    """`owned` says which of the rows that are there belong to the slice: only those may be deleted, and where rows are
    deleted, only those win a tie. What is older than another slice's row is counted: that slice may have lost it."""
    key, rank = key_of(names, verb), _rank(names, verb)
    held = {key(row): row for row in there}
    counts = Counter(key(row) for row in there)
    if any(counts[key(row)] > 1 for row in staged):
        raise several_of_a_key(verb)
    inserted, updated, unchanged, older, differing, ties, elsewhere = [], [], 0, 0, 0, 0, 0
    for row in staged:
        old = held.get(key(row))
        if old is None:
            inserted.append(row)
        elif old == row:
            unchanged += 1
        elif verb.insert_only:
            differing += 1
        else:
            tied = verb.newest_by is not None and rank(row) == rank(old)
            ties += tied
            another_slice = verb.delete_missing and not owned(old)
            elsewhere += another_slice and rank(row) < rank(old)
            wins = verb.wins_ties or another_slice
            if rank(row) < rank(old) or (tied and not wins and content(row) < content(old)):
                older += 1
            else:
                updated.append(row)
    given = {key(row) for row in staged}
    missing = [key(row) for row in there if verb.delete_missing and owned(row) and key(row) not in given]
    changes = Changes(len(inserted), len(updated), unchanged, 0, len(missing), older, differing, ties, elsewhere)
    if verb.newest_by is not None and updated:
        known, oldest = min(rank(row) for row in updated)
        changes = replace(changes, oldest_update=version_of_value(oldest) if known else None)
    return Upserted((*inserted, *updated), frozenset((*(key(row) for row in updated), *missing)), changes)


def null_key(verb: UpsertRows) -> NullKey:
    return NullKey(
        f"the result has rows without a key ({', '.join(verb.key)} is NULL): each run would add them again",
        fix='Filter them out, give them a key, or let NULL be a key: null_keys="match".',
    )


def several_of_a_key(verb: UpsertRows) -> ResultRefused:
    return ResultRefused(
        f"the table holds several rows with one key ({', '.join(verb.key)}): which is meant?",
        fix="Leave one row of each key in the table, then run the task again.",
    )


def _rank(names: Sequence[str], verb: UpsertRows) -> Callable[[Row], tuple[bool, Any]]:
    """NULL is older than everything."""
    if verb.newest_by is None:
        return lambda _: (False, 0)
    at = _place(names, verb.newest_by)
    return lambda row: (row[at] is not None, 0 if row[at] is None else row[at])


def _place(names: Sequence[str], column: str) -> int:
    return [name.lower() for name in names].index(column.lower())
