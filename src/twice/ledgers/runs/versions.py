"""At which versions of its table slices were published, and from where on that is all there was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from twice.core.ledger.record import AttemptState, KnownVersions, aim_of
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import attempts, runs, slices


def read_versions(connection: Connection, own: OwnRows, task: str, labels: Sequence[str]) -> KnownVersions:
    """Of every attempt that the ledger still has, and of publishes that it has adopted."""
    versions: set[int] = set()
    complete: list[int | None] = [0]
    landed = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.version.is_not(None))
    steps = select(slices.c.label, slices.c.expected, slices.c.aim, attempts.c.id, attempts.c.version)
    steps = steps.join(attempts, slices.c.fence == attempts.c.fence).where(own.of(slices.c.task, task), *landed)
    now = select(runs).where(own.of(runs.c.task, task), runs.c.generation > 0)
    for some in in_parts(labels):
        known: dict[str, list[Any]] = defaultdict(list)
        for row in connection.execute(steps.where(slices.c.label.in_(some)).order_by(slices.c.fence)):
            versions.add(row.version)
            if row.expected is not None:
                known[row.label].append(row)
        for run in connection.execute(now.where(runs.c.label.in_(some))):
            versions.update(() if run.version is None else (run.version,))
            complete.append(_complete_from(run, known[run.label]))
    unknown = any(version is None for version in complete)
    return KnownVersions(frozenset(versions), None if unknown else max(version or 0 for version in complete))


def _complete_from(run: Any, steps: Sequence[Any]) -> int | None:
    """Back from what is published now, publish by publish, to the first one that the ledger does not know; 0: there is
    none. None: it does not even know at which version the last one was."""
    made = {
        aim_of(step.expected, step.aim): step for step in steps
    }  # of two at one generation (an older copy was put back) the later
    step = next((s for s in steps if s.id == run.attempt and aim_of(s.expected, s.aim) == run.generation), None)
    first: int | None = run.version
    while step is not None:
        first = step.version
        if step.expected == 0:
            return 0
        del made[aim_of(step.expected, step.aim)]  # a mark that was set back may come to where it was
        step = made.get(step.expected)
    return first
