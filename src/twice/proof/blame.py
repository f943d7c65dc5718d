"""From a difference to what probably makes it. Pure: the plan was read before."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.ports import ALL_ROWS, Suspicion
from twice.core.results.proof import Cause, Difference

_LOOK_FOR = (
    "Look for datetime.now(), random, uuid4, the environment or a file that changes; take the value from run.slice "
    "or from an input."
)


def blame(
    difference: Difference, likely: Sequence[Suspicion], drift: tuple[str, str] | None = None
) -> tuple[Cause, ...]:
    """What reaches the very columns that differ; else what decides on rows; else the task's own Python. `drift`: a
    constant of the plan, as two calls of the task's function gave it."""
    columns, rows = _reaching(difference, likely)
    if columns:
        return (*columns, *rows)
    if drift is not None:
        why = f"the task's own Python gave {drift[0]} on one call and {drift[1]} on the next"
        return (Cause("python value", difference.columns, why, _LOOK_FOR), *rows)
    if rows:
        return rows
    why = "nothing in Spark's plan explains it: the task's own Python gives another value each time"
    return (Cause("code", difference.columns, why, _LOOK_FOR),)


def _reaching(difference: Difference, likely: Sequence[Suspicion]) -> tuple[tuple[Cause, ...], tuple[Cause, ...]]:
    columns, rows = [], []
    for one in likely:
        named = tuple(name for name in difference.columns if name in one.columns)
        if named:
            columns.append(Cause(one.name, named, f"{one.name} reaches column {', '.join(named)}: {one.why}", one.fix))
        elif ALL_ROWS in one.columns or not difference.columns:
            rows.append(_deciding(one))
    return tuple(columns), tuple(rows)


def _deciding(one: Suspicion) -> Cause:
    """Of whole rows: what decides on them, or a value that a row is found by."""
    if ALL_ROWS in one.columns:
        return Cause(one.name, (), f"{one.name} decides which rows there are: {one.why}", one.fix)
    return Cause(one.name, one.columns, f"{one.name} reaches column {', '.join(one.columns)}: {one.why}", one.fix)
