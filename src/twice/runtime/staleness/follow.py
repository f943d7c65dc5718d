"""What a chain follows: the published slices below that are stale because of slices that it deals with.

Which slices read a slice follows from the ledger, unless a publish may have changed rows of any day (a merge). There
the table's log is asked what these publishes touched: to run all that was ever published would take longer every night.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from twice.core.scope import slices_named
from twice.core.slice import Slice
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.runtime.context import RunContext
from twice.runtime.staleness.decide import rerun_of
from twice.runtime.staleness.stale import reads_of, reads_unknown, stale_slices
from twice.runtime.staleness.touched import newest_touch


def followed(context: RunContext, task: Task, due: Mapping[str, set[str]]) -> dict[str, Slice]:
    """By label. `due`: slices of other tasks, by task and label."""
    found = {each.slice.label: each.slice for each in stale_slices(context.project, context.ledger, task, due=due)}
    if rerun_of(task) == "never" or not isinstance(task.scope, TimeScope):
        return found
    for up in context.project.upstream(task):
        for source in reads_of(context.project, task, up) if due.get(up.name) else ():
            if reads_unknown(task, up, source):
                found.update((each.label, each) for each in _touched_since(context, task, up, source, due[up.name]))
    return found


def _touched_since(context: RunContext, task: Task, up: Task, source: Read, due: set[str]) -> Iterator[Slice]:
    """Slices of the task that read rows which a publish of these slices changed after they looked. In doubt all that
    looked before one: where the log does not say which rows it changed, or does not reach back so far."""
    pins = context.ledger.pins(task.name, str(context.project.located(up.target)))
    made = context.ledger.published_versions(up.name, sorted(due))
    if not pins or not made:
        return
    since = min(pin.version for pin in pins.values())
    later = {version for version in made if version > since}
    now = context.target_of(up.target, context.engine.fresh()).touched(up.target, min(later or made) - 1, source.by)
    if now is None:
        return
    slices = slices_named(task.scope, pins)
    theirs = None if now.spans is None else tuple(span for span in now.spans if span.version in later)
    newest = dict.fromkeys(pins, max(later, default=-1))
    if theirs is not None:
        newest = newest_touch(task, slices, source, replace(now, spans=theirs))
    for slice_ in slices:
        pin = pins[slice_.label]
        if now.is_another(pin.version, pin.id) or newest.get(slice_.label, -1) > pin.version:
            yield slice_
