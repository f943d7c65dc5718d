"""What staged rows would do to the rows of a table, key by key. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.names.spark import quoted
from twice.core.ports import Staged
from twice.core.write import Changes, UpsertRows
from twice.targets.delta.log.condition import spelled, unused
from twice.targets.instruments import Hashes, Instruments
from twice.targets.keyed import several_of_a_key

UPDATED, DELETED, UNCHANGED, OLDER, DIFFERING = "updated", "deleted", "unchanged", "older", "differing"
WON, LOST = "won a tie", "lost a tie"
"""Equally new and not the same: the greater content stays. Where missing rows are deleted, a row outside the slice wins
no tie: its slice may have lost it, and would then delete it."""
GONE = (UPDATED, WON, DELETED)
"""The table's rows of these keys go out."""
_UNSURE = "unsure"


@dataclass(frozen=True)
class Before:
    """A version of the table. `rows`: as much of it as staged keys can meet. `content`: at least the rows of these
    files. `inside`: which rows may be deleted, None for all."""

    rows: DataFrame
    content: Callable[[frozenset[str]], DataFrame]
    inside: str | None


@dataclass(frozen=True)
class RowDiff:
    """`changes` in keys; `gone` in rows of the table, `files` the paths of those that hold them. The frames are of the
    staged rows and of the table's: which to write, and which stay."""

    changes: Changes
    gone: int
    files: frozenset[str]
    keys: DataFrame
    verb: UpsertRows
    inside: str | None

    @property
    def written(self) -> int:
        return self.changes.inserted + self.changes.updated

    def to_write(self, staged: DataFrame) -> DataFrame:
        """The staged rows that are new or change something."""
        ours = self.keys.where(sf.col(self._difference).isin([UNCHANGED, OLDER, LOST, DIFFERING]))
        return staged.join(ours, self._matching(staged.columns, self.verb.null_keys == "match"), "left_anti")

    def staying(self, rows: DataFrame) -> DataFrame:
        """The table's rows that neither go nor are written anew. Deleting stops at the slice's own rows."""
        gone = self.keys.where(sf.col(self._difference).isin(list(GONE)))
        matched = self._matching(rows.columns, null_safe=True)
        if self.inside is not None:
            matched = matched & ((sf.col(self._difference) != DELETED) | sf.expr(self.inside))
        return rows.join(gone, matched, "left_anti")

    @property
    def _difference(self) -> str:
        return self.keys.columns[len(self.verb.key)]

    def _matching(self, names: Sequence[str], null_safe: bool) -> SparkColumn:
        return same([quoted(spelled(names, key)) for key in self.verb.key], self.keys.columns, null_safe)


@contextmanager
def compared(
    before: Before, staged: DataFrame, rows: int, verb: UpsertRows, instruments: Instruments
) -> Iterator[RowDiff]:
    """Compare the staged rows (so many, one of each key) with a version of the table. The comparison is kept while the
    caller works with them.

    Where there are stamps, first by key and stamp alone, two columns of the table: where stamps differ, rows do. What
    that leaves unsure is compared by content, in the files it was found in.
    """
    with ExitStack() as kept:
        hashes = instruments.row_hashes if verb.newest_by is None else None
        keys = _kept(kept, _met(before.rows, staged, verb, before.inside, hashes))
        totals = _totals(keys)
        if any(row[2] > row[1] for difference, row in totals.items() if difference != DELETED):
            raise several_of_a_key(verb)
        if _UNSURE in totals:
            content = before.content(frozenset(totals[_UNSURE][3]))
            met = _met(content, staged, verb, before.inside, instruments.row_hashes, missing=False)
            keys = _kept(kept, _decided(keys, met))
            totals = _totals(keys)
        counts = {difference: int(row[1]) for difference, row in totals.items()}
        gone = [totals[difference] for difference in GONE if difference in totals]
        files = frozenset(path for row in gone for path in row[3])
        yield RowDiff(_changes(rows, counts), sum(int(row[2]) for row in gone), files, keys, verb, before.inside)


def _changes(rows: int, counts: Mapping[str, int]) -> Changes:
    """Of so many staged rows, one of each key: those that met no row of the table are new."""
    known = sum(count for difference, count in counts.items() if difference != DELETED)
    won, lost = counts.get(WON, 0), counts.get(LOST, 0)
    return Changes(
        inserted=rows - known,
        updated=counts.get(UPDATED, 0) + won,
        unchanged=counts.get(UNCHANGED, 0),
        deleted=counts.get(DELETED, 0),
        older=counts.get(OLDER, 0) + lost,
        differing=counts.get(DIFFERING, 0),
        ties=won + lost,
    )


def in_all_changes(changes: Changes, staged: Staged) -> Changes:
    """With what was decided inside the batch, when it was staged."""
    return replace(changes, deduplicated=staged.deduplicated, ties=changes.ties + staged.ties)


def _kept(kept: ExitStack, keys: DataFrame) -> DataFrame:
    keys = keys.persist()
    kept.callback(keys.unpersist)
    return keys


def _totals(keys: DataFrame) -> dict[str, Any]:
    """By difference: itself, how many keys, how many rows of the table, and the files of keys that go or are unsure."""
    difference, held, files = keys.columns[-3:]
    there = sf.array_distinct(sf.flatten(sf.collect_set(files)))
    return {row[0]: row for row in keys.groupBy(difference).agg(sf.count(sf.lit(1)), sf.sum(held), there).collect()}


def _met(
    table: DataFrame,
    staged: DataFrame,
    verb: UpsertRows,
    inside: str | None,
    hashes: Hashes | None,
    *,
    missing: bool = True,
) -> DataFrame:
    """One row for each key of the table that the staged rows meet, or (`missing`) miss: the key, the difference, how
    many rows of the table have it, and their files (of keys whose rows go, or must be looked into).

    Without `hashes`, rows of one stamp are unsure. The staged side is narrow (key, stamp, hashes), so that it can be
    broadcast; the table's rows are hashed behind the join, so that only those that met are.
    """
    *ours, at, given, first, second, file, behind, equal, lesser, held, difference = unused(
        table.columns, len(verb.key) + 10
    )
    missing = missing and verb.delete_missing
    ours_alone = sf.expr(inside) if verb.delete_missing and inside is not None else sf.lit(True)
    keys = [quoted(spelled(table.columns, key)) for key in verb.key]
    stamp = sf.lit(0) if verb.newest_by is None else sf.col(quoted(spelled(table.columns, verb.newest_by)))
    narrow = [sf.col(key).alias(name) for key, name in zip(keys, ours, strict=True)]
    content = [] if hashes is None else [*zip(hashes(staged), hashes(table), (first, second), strict=True)]
    alike = reduce(lambda a, b: a & b, (theirs == sf.col(name) for _, theirs, name in content), sf.lit(True))
    below = ours_alone & less((sf.col(first), sf.col(second)), hashes(table)) if hashes is not None else sf.lit(False)
    met = table.withColumn(file, table.metadataColumn("_metadata").getField("file_path")).join(
        staged.select(
            *narrow, stamp.alias(at), sf.lit(True).alias(given), *(mine.alias(name) for mine, _, name in content)
        ),
        same(keys, ours, verb.null_keys == "match"),
        "left" if missing else "inner",
    )
    if missing:
        met = met.where(sf.col(given) | ours_alone)
    by_key = met.groupBy(*narrow).agg(
        sf.first(given).alias(given),
        sf.max(sf.when(newer(stamp, sf.col(at)), 1).when(newer(sf.col(at), stamp), -1).otherwise(0)).alias(behind),
        sf.min(alike).alias(equal),
        sf.max(below).alias(lesser),
        sf.count(sf.lit(1)).alias(held),
        sf.collect_set(file).alias(file),
    )
    found = (
        sf.when(sf.col(given).isNull(), DELETED)
        .when((sf.col(behind) == 0) & sf.col(equal), _UNSURE if hashes is None else UNCHANGED)
        .when(sf.lit(verb.insert_only), DIFFERING)
        .when(sf.col(behind) > 0, OLDER)
        .when((sf.col(behind) < 0) | sf.lit(verb.newest_by is None), UPDATED)
        .when(sf.lit(verb.wins_ties) | ~sf.col(lesser), WON)
        .otherwise(LOST)
    )
    where = sf.when(sf.col(difference).isin([*GONE, _UNSURE]), sf.col(file)).otherwise(sf.array().cast("array<string>"))
    return by_key.withColumn(difference, found).select(*ours, difference, held, where.alias(file))


def _decided(keys: DataFrame, by_content: DataFrame) -> DataFrame:
    """The same keys, each sure: those that were not, by content."""
    *ours, difference, _, _ = keys.columns
    sure = sf.col(difference) != _UNSURE
    others = unused(keys.columns, len(ours))
    unsure = keys.where(~sure).select(*(sf.col(mine).alias(name) for mine, name in zip(ours, others, strict=True)))
    decided = by_content.join(unsure, same(ours, others, null_safe=True), "left_semi")
    return keys.where(sure).unionByName(decided)


def newer(theirs: SparkColumn, ours: SparkColumn) -> SparkColumn:
    """Whether the table's row is the newer one; NULL is older than everything."""
    return sf.coalesce(theirs > ours, theirs.isNotNull() & ours.isNull())


def less(ours: tuple[SparkColumn, SparkColumn], theirs: tuple[SparkColumn, SparkColumn]) -> SparkColumn:
    """Whether the staged row's content is the lesser one, in the order that decides inside a batch too."""
    return (ours[0] < theirs[0]) | ((ours[0] == theirs[0]) & (ours[1] < theirs[1]))


def same(keys: Sequence[str], ours: Sequence[str], null_safe: bool) -> SparkColumn:
    pairs = [(sf.col(key), sf.col(name)) for key, name in zip(keys, ours, strict=False)]
    return reduce(lambda a, b: a & b, (a.eqNullSafe(b) if null_safe else a == b for a, b in pairs))
