"""What staged rows would do to the rows of a table, key by key. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, IntegralType, TimestampType

from twice.core.names.spark import quoted
from twice.core.ports import Staged
from twice.core.since import CursorType
from twice.core.table.mark import version_of_count
from twice.core.write import Changes, UpsertRows
from twice.targets.delta.log.condition import spelled, unused
from twice.targets.instruments import Hashes, Instruments
from twice.targets.keyed import several_of_a_key

UPDATED, DELETED, UNCHANGED, OLDER, DIFFERING = "updated", "deleted", "unchanged", "older", "differing"
ELSEWHERE = "older than a row of another slice"
"""Where missing rows are deleted: that slice may be about to delete it."""
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
        ours = self.keys.where(sf.col(self._difference).isin([UNCHANGED, OLDER, ELSEWHERE, LOST, DIFFERING]))
        return staged.join(ours, self._matching(staged.columns, self.verb.null_keys == "match"), "left_anti")

    def staying(self, rows: DataFrame) -> DataFrame:
        """The table's rows that neither go nor are rewritten. Deleting stops at the slice's own rows."""
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
        keys = _kept(kept, _by_key(before.rows, staged, _Rule(verb, before.inside, hashes, missing=True)))
        totals = _totals(keys)
        if any(row[2] > row[1] for difference, row in totals.items() if difference != DELETED):
            raise several_of_a_key(verb)
        if _UNSURE in totals:
            content = before.content(frozenset(totals[_UNSURE][3]))
            joined = _by_key(content, staged, _Rule(verb, before.inside, instruments.row_hashes, missing=False))
            keys = _kept(kept, _decided(keys, joined))
            totals = _totals(keys)
        counts = {difference: int(row[1]) for difference, row in totals.items()}
        gone = [totals[difference] for difference in GONE if difference in totals]
        files = frozenset(path for row in gone for path in row[3])
        changes = replace(_changes(rows, counts), oldest_update=_oldest(totals, staged, verb))
        yield RowDiff(changes, sum(int(row[2]) for row in gone), files, keys, verb, before.inside)


def _oldest(totals: Mapping[str, Any], staged: DataFrame, verb: UpsertRows) -> int | None:
    """Of the rows that are updated because they are newer."""
    if verb.newest_by is None or UPDATED not in totals or totals[UPDATED][4] is None:
        return None
    kind = _cursor_type(staged, spelled(staged.columns, verb.newest_by))
    return None if kind is None else version_of_count(kind, int(totals[UPDATED][4]))


def _changes(rows: int, counts: Mapping[str, int]) -> Changes:
    """Of so many staged rows, one of each key: those that matched no row of the table are new."""
    known = sum(count for difference, count in counts.items() if difference != DELETED)
    won, lost, elsewhere = counts.get(WON, 0), counts.get(LOST, 0), counts.get(ELSEWHERE, 0)
    return Changes(
        inserted=rows - known,
        updated=counts.get(UPDATED, 0) + won,
        unchanged=counts.get(UNCHANGED, 0),
        deleted=counts.get(DELETED, 0),
        older=counts.get(OLDER, 0) + elsewhere + lost,
        differing=counts.get(DIFFERING, 0),
        ties=won + lost,
        elsewhere=elsewhere,
    )


def in_all_changes(changes: Changes, staged: Staged) -> Changes:
    """With what was decided inside the batch, when it was staged."""
    return replace(changes, deduplicated=staged.deduplicated, ties=changes.ties + staged.ties)


def _kept(kept: ExitStack, keys: DataFrame) -> DataFrame:
    keys = keys.persist()
    kept.callback(keys.unpersist)
    return keys


def _totals(keys: DataFrame) -> dict[str, Any]:
    """By difference: itself, how many keys, how many rows of the table, the files of keys that go or are unsure, and
    the least of the staged stamps, counted as a mark counts them."""
    difference, held, files, at = keys.columns[-4:]
    there = sf.array_distinct(sf.flatten(sf.collect_set(files)))
    counted = (sf.count(sf.lit(1)), sf.sum(held), there, sf.min(at))
    return {row[0]: row for row in keys.groupBy(difference).agg(*counted).collect()}


@dataclass(frozen=True)
class _Rule:
    """How the rows of a key are compared. `inside`: the slice's own rows, None for all. Without `hashes`, rows of one
    stamp are unsure. `missing`: keys of the table that the staged rows do not have count too."""

    verb: UpsertRows
    inside: str | None
    hashes: Hashes | None
    missing: bool

    @property
    def ours_alone(self) -> SparkColumn:
        """Whether a row of the table is one that this write may delete."""
        return sf.expr(self.inside) if self.verb.delete_missing and self.inside is not None else sf.lit(True)

    def keys(self, rows: DataFrame) -> list[str]:
        return [quoted(spelled(rows.columns, key)) for key in self.verb.key]

    def stamp(self, rows: DataFrame) -> SparkColumn:
        newest_by = self.verb.newest_by
        return sf.lit(0) if newest_by is None else sf.col(quoted(spelled(rows.columns, newest_by)))


class _ComparedColumns(NamedTuple):
    """Columns of the comparison, under names that the table does not have: the staged side's stamp (`at`), mark
    (`given`) and hashes; of each key which side is newer (`behind`), whether the contents are the same, whether ours is
    the lesser, whether the table's is the slice's own, and how many rows of the table have it."""

    at: str
    given: str
    first: str
    second: str
    file: str
    behind: str
    equal: str
    lesser: str
    inside: str
    held: str
    difference: str


def _by_key(table: DataFrame, staged: DataFrame, rule: _Rule) -> DataFrame:
    """One row for each key of the table that the staged rows meet, or (`missing`) miss: the key, the difference, how
    many rows of the table have it, and their files (of keys whose rows go, or must be looked into)."""
    free = unused(table.columns, len(rule.verb.key) + len(_ComparedColumns._fields))
    ours, names = free[: len(rule.verb.key)], _ComparedColumns(*free[len(rule.verb.key) :])
    stamp, at = rule.stamp(table), sf.col(names.at)
    alike, below = _content(table, rule, names)
    by_key = (
        _joined(table, staged, rule, ours, names)
        .groupBy(*(sf.col(key).alias(name) for key, name in zip(rule.keys(table), ours, strict=True)))
        .agg(
            sf.first(names.given).alias(names.given),
            sf.first(names.at).alias(names.at),
            sf.max(sf.when(newer(stamp, at), 1).when(newer(at, stamp), -1).otherwise(0)).alias(names.behind),
            sf.min(alike).alias(names.equal),
            sf.max(below).alias(names.lesser),
            sf.max(rule.ours_alone).alias(names.inside),
            sf.count(sf.lit(1)).alias(names.held),
            sf.collect_set(names.file).alias(names.file),
        )
        .withColumn(names.difference, _difference(rule, names))
    )
    looked_into = sf.col(names.difference).isin([*GONE, _UNSURE])
    files = sf.when(looked_into, sf.col(names.file)).otherwise(sf.array().cast("array<string>"))
    stamps = _counted(by_key, names.at).alias(names.at)
    return by_key.select(*ours, names.difference, names.held, files.alias(names.file), stamps)


def _counted(rows: DataFrame, stamp: str) -> SparkColumn:
    """A stamp as a mark counts it; NULL where it is of no cursor's type."""
    kind = _cursor_type(rows, stamp)
    if kind is None:
        return sf.lit(None).cast("bigint")
    if kind == "timestamp":
        return sf.unix_micros(stamp)
    return (sf.unix_date(stamp) if kind == "date" else sf.col(stamp)).cast("bigint")


def _cursor_type(rows: DataFrame, name: str) -> CursorType | None:
    type_ = rows.schema[name].dataType
    if isinstance(type_, TimestampType):
        return "timestamp"
    if isinstance(type_, DateType):
        return "date"
    return "integer" if isinstance(type_, IntegralType) else None


def _joined(
    table: DataFrame, staged: DataFrame, rule: _Rule, ours: Sequence[str], names: _ComparedColumns
) -> DataFrame:
    """The staged side is narrow (key, stamp, hashes), so that it can be broadcast; the table's rows are hashed behind
    the join, so that only joined ones are."""
    verb, keys = rule.verb, rule.keys(table)
    missing = rule.missing and verb.delete_missing
    hashes = [] if rule.hashes is None else [*zip(rule.hashes(staged), (names.first, names.second), strict=True)]
    narrow = staged.select(
        *(sf.col(key).alias(name) for key, name in zip(keys, ours, strict=True)),
        rule.stamp(table).alias(names.at),
        sf.lit(True).alias(names.given),
        *(mine.alias(name) for mine, name in hashes),
    )
    joined = table.withColumn(names.file, table.metadataColumn("_metadata").getField("file_path")).join(
        narrow, same(keys, ours, verb.null_keys == "match"), "left" if missing else "inner"
    )
    return joined.where(sf.col(names.given) | rule.ours_alone) if missing else joined


def _content(table: DataFrame, rule: _Rule, names: _ComparedColumns) -> tuple[SparkColumn, SparkColumn]:
    """Whether a row of the table and the staged one hold the same, and whether ours is the lesser."""
    if rule.hashes is None:
        return sf.lit(True), sf.lit(False)
    theirs, ours = rule.hashes(table), (sf.col(names.first), sf.col(names.second))
    alike = reduce(lambda a, b: a & b, (hash_ == mine for hash_, mine in zip(theirs, ours, strict=True)), sf.lit(True))
    below = rule.ours_alone & less(ours, theirs)
    return alike, below


def _difference(rule: _Rule, names: _ComparedColumns) -> SparkColumn:
    """What becomes of a key, by its row of the comparison."""
    verb, behind = rule.verb, sf.col(names.behind)
    return (
        sf.when(sf.col(names.given).isNull(), DELETED)
        .when((behind == 0) & sf.col(names.equal), _UNSURE if rule.hashes is None else UNCHANGED)
        .when(sf.lit(verb.insert_only), DIFFERING)
        .when((behind > 0) & ~sf.coalesce(sf.col(names.inside), sf.lit(False)), ELSEWHERE)
        .when(behind > 0, OLDER)
        .when((behind < 0) | sf.lit(verb.newest_by is None), UPDATED)
        .when(sf.lit(verb.wins_ties) | ~sf.col(names.lesser), WON)
        .otherwise(LOST)
    )


def _decided(keys: DataFrame, by_content: DataFrame) -> DataFrame:
    """The same keys, each sure: those that were not, by content."""
    *ours, difference, _, _, _ = keys.columns
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
