"""The sum of every numeric column of each slice: how much a restated slice changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.slice import Slice
from twice.core.spark_names import quoted
from twice.engine.frames.columns import is_numeric
from twice.engine.frames.frames import columns_of
from twice.engine.frames.observe import slice_number


def totals(frame: DataFrame, slices: Sequence[Slice]) -> Mapping[str, Mapping[str, str | None]]:
    """One job. A sum too great for its type is told as none, not as an error."""
    names = [(column.name, column.type) for column in columns_of(frame) if is_numeric(column.type)]
    # A sum of whole numbers outgrows their type before it outgrows a decimal.
    wide = [f"cast({quoted(n)} AS decimal(38,0))" if t.endswith("int") else quoted(n) for n, t in names]
    sums = [sf.expr(f"cast(try_sum({column}) AS string)").alias(f"s{at}") for at, column in enumerate(wide)]
    at = sf.lit(0) if slices[0].bounds is None else slice_number(slices)
    rows = frame.withColumn("__twice_slice", at).where("__twice_slice >= 0").groupBy("__twice_slice")
    found = {row[0]: row[1:] for row in rows.agg(sf.count(sf.lit(1)), *sums).collect()}
    nothing = (0,) + (None,) * len(names)
    return {
        slice_.label: dict(zip((name for name, _ in names), found.get(place, nothing)[1:], strict=True))
        for place, slice_ in enumerate(slices)
    }
