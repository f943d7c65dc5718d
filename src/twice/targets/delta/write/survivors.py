"""One row of each key, the same on every run: whatever the order of the rows and the number of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from twice.core.names.spark import quoted
from twice.core.write import UpsertRows
from twice.targets.delta.log.condition import spelled, unused
from twice.targets.instruments import Instruments


def survivors(
    frame: DataFrame, verb: UpsertRows, instruments: Instruments
) -> tuple[DataFrame, Callable[[], tuple[int, ...]]]:
    """Of each key the newest row, then the one with the greatest content hash; NULL is older than everything.

    With them, how many rows were given and how many survivors won a tie, to be read once they are written. Rows are
    counted behind the shuffle: one lost or doubled there is missed in the sum.
    """
    first, second, place, last, tied = unused(frame.columns, 5)
    hashes = dict(zip((first, second), instruments.row_hashes(frame), strict=True))
    newest = [] if verb.newest_by is None else [sf.col(quoted(spelled(frame.columns, verb.newest_by)))]
    order = [*(column.asc_nulls_first() for column in newest), sf.col(first).asc(), sf.col(second).asc()]
    by_key = Window.partitionBy(*_columns(frame.columns, verb.key)).orderBy(*order)
    # Sorted by the same columns, so it costs neither another shuffle nor another sort.
    equally_new = Window.partitionBy(*_columns(frame.columns, verb.key), *newest).orderBy(first, second)
    least = [sf.first(name).over(equally_new) != sf.col(name) for name in (first, second)]
    a_tie = (least[0] | least[1]).cast("int") if newest else sf.lit(0)
    # The last place of a key is the number of its rows: one window gives both the survivor and the count.
    ranked = frame.withColumns(hashes).withColumns(
        {place: sf.row_number().over(by_key), last: sf.lead(sf.lit(1)).over(by_key).isNull(), tied: a_tie}
    )
    counted, given = instruments.totalled(ranked.where(sf.col(last)), sf.col(place), sf.col(tied))
    return counted.drop(first, second, place, last, tied), given


def _columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    return [quoted(spelled(names, column)) for column in wanted]
