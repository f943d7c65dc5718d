"""From a difference to what probably makes it. Pure: the plan was read before."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.ports import ALL_ROWS, Suspicion
from twice.core.proof import Cause, Difference

UNKNOWN = Cause(
    "code",
    (),
    "nothing in Spark's plan explains it: the task's own Python gives another value each time it is called",
    "Look for datetime.now(), random, uuid4, the environment or a file that changes; take the value from run.slice "
    "or from an input.",
)


def blame(difference: Difference, likely: Sequence[Suspicion]) -> tuple[Cause, ...]:
    """The suspicions that reach what differs, those of the very columns first; if there is none, the code itself."""
    return tuple(_reaching(difference, likely)) or (Cause(UNKNOWN.name, difference.columns, UNKNOWN.why, UNKNOWN.fix),)


def _reaching(difference: Difference, likely: Sequence[Suspicion]) -> list[Cause]:
    columns, rows = [], []
    for one in likely:
        met = tuple(name for name in difference.columns if name in one.columns)
        if met:
            columns.append(Cause(one.name, met, f"{one.name} reaches column {', '.join(met)}: {one.why}", one.fix))
        elif ALL_ROWS in one.columns:
            rows.append(Cause(one.name, (), f"{one.name} decides which rows there are: {one.why}", one.fix))
    return columns + rows
