"""What staged rows would do to the rows of a table, key by key. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.write import Changes, UpsertRows
from twice.targets.delta.condition import quoted, spelled, unused
from twice.targets.delta.site import Instruments
from twice.targets.keyed import several_of_a_key

UPDATED, DELETED, UNCHANGED, OLDER, DIFFERING = "updated", "deleted", "unchanged", "older", "differing"
GONE = (UPDATED, DELETED)
"""The table's rows of these keys go out."""


@dataclass(frozen=True)
class Verdicts:
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
        ours = self.keys.where(sf.col(self._verdict).isin([UNCHANGED, OLDER, DIFFERING]))
        return staged.join(ours, self._matching(staged.columns, self.verb.null_keys == "match"), "left_anti")

    def staying(self, rows: DataFrame) -> DataFrame:
        """The table's rows that neither go nor are written anew. Deleting stops at the slice's own rows."""
        gone = self.keys.where(sf.col(self._verdict).isin(list(GONE)))
        matched = self._matching(rows.columns, null_safe=True)
        if self.inside is not None:
            matched = matched & ((sf.col(self._verdict) == UPDATED) | sf.expr(self.inside))
        return rows.join(gone, matched, "left_anti")

    @property
    def _verdict(self) -> str:
        return self.keys.columns[len(self.verb.key)]

    def _matching(self, names: Sequence[str], null_safe: bool) -> SparkColumn:
        return same([quoted(spelled(names, key)) for key in self.verb.key], self.keys.columns, null_safe)


@contextmanager
def judged(
    table: DataFrame, staged: DataFrame, rows: int, verb: UpsertRows, inside: str | None, instruments: Instruments
) -> Iterator[Verdicts]:
    """Compare the staged rows (so many, one of each key) with a version of the table, in one job. `inside`: which of
    the table's rows may be deleted. The verdicts are kept while the caller works with them."""
    keys = _verdicts(table, staged, verb, inside, instruments).persist()
    try:
        name, held, files = keys.columns[-3:]
        there = sf.array_distinct(sf.flatten(sf.collect_set(files)))
        totals = keys.groupBy(name).agg(sf.count(sf.lit(1)), sf.sum(held), there).collect()
        counts = {row[0]: int(row[1]) for row in totals}
        gone = [row for row in totals if row[0] in GONE]
        if any(row[2] > row[1] for row in totals if row[0] != DELETED):
            raise several_of_a_key(verb)
        known = sum(count for verdict, count in counts.items() if verdict != DELETED)
        changes = Changes(
            inserted=rows - known,
            updated=counts.get(UPDATED, 0),
            unchanged=counts.get(UNCHANGED, 0),
            deleted=counts.get(DELETED, 0),
            older=counts.get(OLDER, 0),
            differing=counts.get(DIFFERING, 0),
        )
        touched = frozenset(path for row in gone for path in row[3])
        yield Verdicts(changes, sum(int(row[2]) for row in gone), touched, keys, verb, inside)
    finally:
        keys.unpersist()


def _verdicts(
    table: DataFrame, staged: DataFrame, verb: UpsertRows, inside: str | None, instruments: Instruments
) -> DataFrame:
    """One row for each key of the table that the staged rows meet, or miss: the key, the verdict, how many rows of the
    table have it, and the files they lie in (of keys that go).

    The staged side is narrow (key, stamp, hashes), so that it can be broadcast; the table's rows are hashed behind the
    join, so that only those that met are.
    """
    width = len(verb.key)
    *ours, at, first, second, file, differs, behind, held = unused(table.columns, width + 7)
    narrow = dict(zip(ours, (sf.col(quoted(spelled(table.columns, key))) for key in verb.key), strict=True))
    stamp = None if verb.newest_by is None else sf.col(quoted(spelled(table.columns, verb.newest_by)))
    narrow[at] = sf.lit(None) if stamp is None else stamp
    narrow |= dict(zip((first, second), instruments.row_hashes(staged), strict=True))
    keys = [quoted(spelled(table.columns, key)) for key in verb.key]
    path = table.metadataColumn("_metadata").getField("file_path")
    met = table.withColumn(file, path).join(
        staged.select(*(column.alias(name) for name, column in narrow.items())),
        same(keys, ours, verb.null_keys == "match"),
        "left" if verb.delete_missing else "inner",
    )
    matched = sf.col(first).isNotNull()
    if verb.delete_missing and inside is not None:
        met = met.where(matched | sf.expr(inside))
    content = zip(instruments.row_hashes(table), (first, second), strict=True)
    other = reduce(lambda a, b: a | b, (hash_ != sf.col(name) for hash_, name in content))
    by_key = met.groupBy(*(sf.col(key).alias(name) for key, name in zip(keys, ours, strict=True))).agg(
        sf.max(other).alias(differs),
        sf.max(sf.lit(False) if stamp is None else newer(stamp, sf.col(at))).alias(behind),
        sf.count(sf.lit(1)).alias(held),
        sf.collect_set(file).alias(file),
    )
    verdict = _verdict(sf.col(differs), sf.col(behind), verb.insert_only)
    nowhere = sf.array().cast("array<string>")
    where = sf.when(sf.col(differs).isin(list(GONE)), sf.col(file)).otherwise(nowhere)
    return by_key.select(*ours, verdict.alias(differs), held, file).withColumn(file, where)


def _verdict(differs: SparkColumn, behind: SparkColumn, insert_only: bool) -> SparkColumn:
    """`differs` is NULL for a key that no staged row has."""
    return (
        sf.when(differs.isNull(), DELETED)
        .when(~differs, UNCHANGED)
        .when(sf.lit(insert_only), DIFFERING)
        .when(behind, OLDER)
        .otherwise(UPDATED)
    )


def newer(theirs: SparkColumn, ours: SparkColumn) -> SparkColumn:
    """Whether the table's row is the newer one; NULL is older than everything."""
    return sf.coalesce(theirs > ours, theirs.isNotNull() & ours.isNull())


def same(keys: Sequence[str], ours: Sequence[str], null_safe: bool) -> SparkColumn:
    pairs = [(sf.col(key), sf.col(name)) for key, name in zip(keys, ours, strict=False)]
    return reduce(lambda a, b: a & b, (a.eqNullSafe(b) if null_safe else a == b for a, b in pairs))
