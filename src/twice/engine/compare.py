"""Two tables by content: how many rows differ, in which columns, and a few of them side by side.

Nothing depends on the order of rows or of columns. Rows are told apart by the fingerprint's 128 bits, so that types
which cannot be compared (maps, variants) can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.proof import SHOWN, Difference, Pair
from twice.engine.columns import as_plain, quoted
from twice.engine.fingerprint import digest, halves, key_hash, row_hashes
from twice.engine.frames import columns_of

_SIDE, _FIRST, _SECOND, _SURPLUS, _ROW, _THERE = (
    f"__twice_{name}" for name in ("side", "first", "second", "surplus", "row", "there")
)


def content(frame: DataFrame, ignored: Sequence[str] = ()) -> str:
    """The fingerprint of all rows of a frame. One job."""
    kept = _without(frame, ignored)
    row = kept.agg(sf.count(sf.lit(1)), *_sums(row_hashes(kept), sf.lit(1))).first()
    assert row is not None
    return digest(columns_of(kept), int(row[0]), [int(number or 0) for number in row[1:]])


def compare(clean: DataFrame, other: DataFrame, ignored: Sequence[str] = ()) -> Difference | None:
    """None if both hold the same rows, as often. `ignored` columns may differ."""
    one, two = _without(clean, ignored), _without(other, ignored)
    names = {field.name.lower(): field.dataType for field in two.schema.fields}
    odd = [f.name for f in one.schema.fields if names.pop(f.name.lower(), None) != f.dataType]
    if odd or names:
        return Difference((*odd, *(name for name in names if name not in odd)), 0, 0)
    rows = _differing(one, two).persist()
    try:
        return _described(rows, one.columns)
    finally:
        rows.unpersist()


@dataclass(frozen=True)
class _Explained:
    """`own`: columns whose values, taken alone, differ. `alone`: without this one column the rows are the same."""

    own: tuple[str, ...]
    alone: tuple[str, ...]


def _described(rows: DataFrame, names: Sequence[str]) -> Difference | None:
    surplus = sf.col(_SURPLUS)
    row = rows.agg(
        sf.sum(sf.greatest(surplus, sf.lit(0))),
        sf.sum(sf.greatest(-surplus, sf.lit(0))),
        sf.sum(sf.when((surplus < 0) & sf.col(_THERE), -surplus).otherwise(sf.lit(0))),
    ).first()
    assert row is not None
    missing, added, doubled = (int(number or 0) for number in row)
    if not missing and not added:
        return None
    flat = rows.select(_SURPLUS, f"{_ROW}.*")
    columns = _columns(flat, names) if missing and added else ()
    return Difference(columns, missing, added, doubled, _pairs(flat, names, columns))


def _without(frame: DataFrame, ignored: Sequence[str]) -> DataFrame:
    lower = {name.lower() for name in ignored}
    return frame.select(*(quoted(name) for name in frame.columns if name.lower() not in lower))


def _differing(one: DataFrame, two: DataFrame) -> DataFrame:
    """One line for each distinct row that is not there equally often, with how much more often `one` has it."""
    sided = one.withColumn(_SIDE, sf.lit(1)).unionByName(two.withColumn(_SIDE, sf.lit(-1)))
    first, second = row_hashes(one)
    whole = sf.struct(*(quoted(name) for name in one.columns))
    hashed = sided.select(_SIDE, first.alias(_FIRST), second.alias(_SECOND), whole.alias(_ROW))
    counted = hashed.groupBy(_FIRST, _SECOND).agg(
        sf.sum(_SIDE).alias(_SURPLUS), sf.first(_ROW).alias(_ROW), sf.bool_or(sf.col(_SIDE) > 0).alias(_THERE)
    )
    return counted.where(sf.col(_SURPLUS) != 0)


def _columns(flat: DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """The fewest columns that explain the difference: one without which the rows agree, else all that differ."""
    explained = _explained(flat, names)
    both = tuple(name for name in explained.alone if name in explained.own)
    if both or explained.alone:
        return both or explained.alone
    return explained.own or tuple(names)


def _explained(flat: DataFrame, names: Sequence[str]) -> _Explained:
    """One job, whose sums are all zero for what both sides agree on."""
    sums: list[SparkColumn] = []
    for name in names:
        sums += _sums(row_hashes(flat.select(quoted(name))), sf.col(_SURPLUS))
        rest = [quoted(other) for other in names if other != name]
        sums += _sums(row_hashes(flat.select(*rest)), sf.col(_SURPLUS)) if rest else [sf.lit(1)] * 4
    row = flat.agg(*(column.alias(f"n{at}") for at, column in enumerate(sums))).first()
    assert row is not None
    zero = [not any(row[at : at + 4]) for at in range(0, len(sums), 4)]
    own = tuple(name for at, name in enumerate(names) if not zero[2 * at])
    return _Explained(own, tuple(name for at, name in enumerate(names) if zero[2 * at + 1]))


def _sums(hashes: tuple[SparkColumn, SparkColumn], times: SparkColumn) -> list[SparkColumn]:
    return [sf.sum(half * times) for half in halves(*hashes)]


def _pairs(flat: DataFrame, names: Sequence[str], columns: Sequence[str]) -> tuple[Pair, ...]:
    """Rows that agree on everything else side by side; where there are none, each by itself."""
    keys = [name for name in names if name not in columns]
    clean, other = flat.where(f"{_SURPLUS} > 0"), flat.where(f"{_SURPLUS} < 0")
    if columns and keys:
        left, right = (
            side.select(key_hash(flat, keys).alias("key"), sf.struct(*(quoted(n) for n in names)).alias(title))
            for side, title in ((clean, "clean"), (other, "other"))
        )
        found = left.join(right, "key").orderBy("key").limit(SHOWN).collect()
        if found:
            return tuple(Pair(_plain(row["clean"]), _plain(row["other"])) for row in found)
    ones, others = ([_plain(row) for row in side.drop(_SURPLUS).limit(SHOWN).collect()] for side in (clean, other))
    longest = max(len(ones), len(others))
    padded = (side + [None] * (longest - len(side)) for side in (ones, others))
    return tuple(Pair(one, two) for one, two in zip(*padded, strict=True))


def _plain(row: Any) -> dict[str, Any]:
    return {name: as_plain(value) for name, value in row.asDict().items()}
