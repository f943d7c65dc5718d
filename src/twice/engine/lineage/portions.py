"""What each slice of a batch reads: the batch's own scans, taken apart by the column its inputs are cut by.

A slice's identity must not depend on the slices it was computed with: its files are those a run of it alone would
read. A file shows its part by its partition or its statistics; one that shows nothing belongs to every slice, and a
later run of the slice alone then computes it once more.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

from twice.core.ports import Leaf, Portion
from twice.core.slice import Slice
from twice.engine.frames.columns import find
from twice.engine.frames.frames import columns_of
from twice.engine.frames.slices import ValueRange, range_of
from twice.engine.lineage.leaves import as_leaves, read
from twice.engine.lineage.scans import DeltaScan, File

_MILLISECOND = timedelta(milliseconds=1)


def leaves_of_each(frame: Any, slices: Sequence[Slice], portions: Sequence[Portion]) -> Mapping[str, tuple[Leaf, ...]]:
    reading = read(frame)
    found: dict[str, set[Leaf]] = {slice_.label: set(reading.others) for slice_ in slices}
    known = {_attribute(portion): portion for portion in portions}
    for ids, scan in reading.scans:
        mine = [portion for attribute, portion in known.items() if attribute in ids]
        narrow = isinstance(scan, DeltaScan) and len(mine) == 1
        parts = _parts(scan, mine[0]) if isinstance(scan, DeltaScan) and narrow else {}
        whole = scan.leaf() if isinstance(scan, DeltaScan) else scan
        for label, leaves in found.items():
            leaves.add(parts.get(label, whole))
    return {label: as_leaves(leaves) for label, leaves in found.items()}


def _attribute(portion: Portion) -> int:
    """The id by which plans know the column the input is cut by."""
    column = find(columns_of(portion.frame), portion.column)
    assert column is not None, portion.column
    output = portion.frame._jdf.queryExecution().analyzed().output()
    return next(
        int(output.apply(at).exprId().id())
        for at in range(output.size())
        if str(output.apply(at).name()) == column.name
    )


def _parts(scan: DeltaScan, portion: Portion) -> dict[str, Leaf]:
    """Each slice's own files as its leaf."""
    columns = columns_of(portion.frame)
    cuts = {label: range_of(columns, portion.column, *part, portion.zone) for label, part in portion.parts.items()}
    ordered = sorted(cuts.items(), key=lambda each: each[1].low)
    lows = [cut.low for _, cut in ordered]
    highs = [cut.high for _, cut in ordered]
    files: dict[str, set[File]] = {label: set() for label in cuts}
    for file, added in scan.added.items():
        reach = _value_range(added, ordered[0][1])
        first, last = (
            (0, len(ordered)) if reach is None else (bisect_right(highs, reach[0]), bisect_right(lows, reach[1]))
        )
        for label, _ in ordered[first:last]:
            files[label].add(file)
    return {label: replace(scan, files=frozenset(mine)).leaf() for label, mine in files.items()}


def _value_range(added: Mapping[str, Any], cut: ValueRange) -> tuple[Any, Any] | None:
    """The least and the greatest value a file may hold; None if that is not known."""
    is_date = not isinstance(cut.low, datetime)
    partition: Mapping[str, str | None] = added.get("partitionValues") or {}
    if cut.column in partition:
        value = _value(partition[cut.column], is_date)
        return None if value is None else (value, value)
    try:
        stats = json.loads(added["stats"])
        low, high = (_value(stats[which][cut.column], is_date) for which in ("minValues", "maxValues"))
    except (KeyError, TypeError, ValueError):
        return None
    if low is None or high is None:
        return None
    # Statistics of instants are cut to milliseconds.
    return low, high if is_date else high + _MILLISECOND


def _value(text: str | None, is_date: bool) -> Any:
    if not text:
        return None
    if is_date:
        return date.fromisoformat(text)
    instant = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)
