"""Two tables by content: how many rows differ, in which columns, and a few of them side by side.

Nothing depends on the order of rows or of columns. Rows are distinguished by the fingerprint's 128 bits, so that types
which cannot be compared (maps, variants) can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.names.spark import quoted
from twice.core.results.proof import SHOWN, Difference, RowPair
from twice.engine.frames.columns import as_plain
from twice.engine.frames.fingerprint import digest, halves, key_hash, row_hashes
from twice.engine.frames.frames import columns_of

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
    """The fewest columns without which the rows agree: one; else all whose values differ even taken alone; else these
    and one more, whose values only moved from row to row."""
    groups = [[name] for name in names] + [[other for other in names if other != name] for name in names]
    equal = _equal(flat, groups)
    own = [name for name, same in zip(names, equal[: len(names)], strict=True) if not same]
    alone = [name for name, same in zip(names, equal[len(names) :], strict=True) if same]
    if alone:
        return tuple(name for name in alone if name in own) or tuple(alone)
    moved = [name for name in names if name not in own]
    rests = [[other for other in moved if other != name] for name in moved]
    agree, *without = _equal(flat, [moved, *rests])
    more = [] if agree else [name for name, same in zip(moved, without, strict=True) if same]
    if not agree and not more:
        return tuple(names) if not own else tuple(own)
    return tuple(name for name in names if name in own or name in more)


def _equal(flat: DataFrame, groups: Sequence[Sequence[str]]) -> list[bool]:
    """Whether both sides hold the same values, as often, in each of these groups of columns. One job: its sums are
    all zero where they do. No columns at all are equal."""
    sums: list[SparkColumn] = []
    for group in groups:
        part = flat.select(*(quoted(name) for name in group))
        sums += _sums(row_hashes(part), sf.col(_SURPLUS)) if group else [sf.lit(0)] * 4
    row = flat.agg(*(column.alias(f"n{at}") for at, column in enumerate(sums))).first()
    assert row is not None
    return [not any(row[at : at + 4]) for at in range(0, 4 * len(groups), 4)]


def _sums(hashes: tuple[SparkColumn, SparkColumn], times: SparkColumn) -> list[SparkColumn]:
    return [sf.sum(half * times) for half in halves(*hashes)]


def _pairs(flat: DataFrame, names: Sequence[str], columns: Sequence[str]) -> tuple[RowPair, ...]:
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
            return tuple(RowPair(_plain(row["clean"]), _plain(row["other"])) for row in found)
    ones, others = ([_plain(row) for row in side.drop(_SURPLUS).limit(SHOWN).collect()] for side in (clean, other))
    longest = max(len(ones), len(others))
    padded = (side + [None] * (longest - len(side)) for side in (ones, others))
    return tuple(RowPair(one, two) for one, two in zip(*padded, strict=True))


def _plain(row: Any) -> dict[str, Any]:
    return {name: as_plain(value) for name, value in row.asDict().items()}
