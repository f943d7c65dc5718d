"""What is kept although what it was made of changed. An incremental task reads no row twice, and what is appended or
has `rerun="never"` stays as it is: where a slice that they have read is published again with other rows, nothing
computes them again. That is reported until a person has put it right or accepted it.

What the ledger knows: which publishes of a slice above came after what was read below, and of each whether rows that
were there before it changed. A slice's first publish brings new rows only; the same fingerprint, the same rows; of a
merge its counts say it. Where a publish before it is not on record, it counts as a change. An incremental task looks
up to a newer version with every run: what was changed behind its mark is written down with the run, and carried on.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twice.core.hints import command, hint
from twice.core.ledger.record import REWRITTEN, InputRecord, Pinned, PublishRecord, RunRecord
from twice.core.ports import RunLedger
from twice.core.project.project import Project
from twice.core.scope import Whole, slices_named
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.runtime.staleness.decide import rerun_of
from twice.runtime.staleness.stale import Stale, exact_readers, reads_all, reads_of, stale_slices

ALLOW = "rewritten_input"
"""In `Policy(allow=...)`: the task is meant to keep what it read."""

_UNKNOWN = Pinned(-1, -1)


def not_right(project: Project, ledger: RunLedger, task: Task, code: str | None = None) -> tuple[Stale, ...]:
    """All that the ledger knows not to be right of a task: what its next run would compute again, and what stays as it
    is until a person acts (`kept`)."""
    found = {each.slice.label: each for each in stale_slices(project, ledger, task, code)}
    for each in kept_slices(project, ledger, task):
        found.setdefault(each.slice.label, each)
    return tuple(sorted(found.values(), key=lambda each: each.slice))


def keeps(task: Task) -> bool:
    """Whether what it has published is not computed again by itself when its inputs change."""
    return isinstance(task.scope, Since) or rerun_of(task) == "never"


def kept_slices(project: Project, ledger: RunLedger, task: Task) -> tuple[Stale, ...]:
    if not keeps(task) or ALLOW in task.policy.allow:
        return ()
    published = {run.label: run for run in ledger.runs(task.name) if run.generation}
    found: dict[str, str] = {}
    for up in project.upstream(task) if published else ():
        for label, by in _changed(project, ledger, task, up, published):
            table = project.located(up.target)
            found.setdefault(label, f"its input {table} was published again after it was read: {by}")
    return tuple(Stale(task.name, each, found[each.label], _way_out(task, each)) for each in _named(task, found))


def _way_out(task: Task, slice_: Slice) -> str:
    """What a person can do. That it is dealt with is seen by itself where a mark is set back or a slice is restated."""
    accepted = f"twice accept {task.name} --reason REASON"
    if not task.write.restatable or (isinstance(task.scope, Since) and task.write.kind == "append"):
        return f"correct its rows by hand if they must be, then {accepted}"
    if isinstance(task.scope, Since):
        return f"twice mark reset {task.name} --to MARK --reason REASON (it reads them again), or {accepted}"
    date = None if isinstance(task.scope, Whole) else slice_.label
    return hint("{}, or {}", command("restate", task.name, date=date), accepted)


def left_behind(project: Project, ledger: RunLedger, task: Task) -> tuple[InputRecord, ...]:
    """What an incremental run has to write down before its publish moves the pins on: by table the last slice that
    was changed behind its mark. Changes nothing."""
    if not isinstance(task.scope, Since):
        return ()
    label = task.scope.only.label
    published = ledger.runs_of(task.name, [label])
    held = {label: run for label, run in published.items() if run.generation}
    return tuple(
        InputRecord(label, REWRITTEN, str(project.located(up.target)), by, None)
        for up in (project.upstream(task) if held else ())
        for _, by in _changed(project, ledger, task, up, held)
    )


def _changed(
    project: Project, ledger: RunLedger, task: Task, up: Task, published: Mapping[str, RunRecord]
) -> Iterator[tuple[str, str]]:
    """By label of the task at most one slice of the task above that was changed after it was read, the last one."""
    table = str(project.located(up.target))
    pins = _pins(ledger, task, table, published)
    if not pins:
        return
    found: dict[str, PublishRecord] = {}
    for source in reads_of(project, task, up):
        for label, each in _newest(_past(ledger, up), task, up, source, pins):
            if label not in found or each.fence > found[label].fence:
                found[label] = each
    yield from ((label, f"{up.name}[{each.label}]") for label, each in found.items())
    if isinstance(task.scope, Since):
        label = task.scope.only.label
        carried = [each for each in ledger.inputs(task.name, [label]).get(label, ()) if each.kind == REWRITTEN]
        accepted = pins[label].fence > ledger.publishers(task.name).get(label, 0)
        if label not in found and not accepted:
            yield from ((label, str(each.identity)) for each in carried if each.name == table)


def _pins(ledger: RunLedger, task: Task, table: str, published: Mapping[str, RunRecord]) -> dict[str, Pinned]:
    """Up to where each published slice has read the table. One without a pin whose publish is on record did not read
    it; but a mark that was set by a person counts as read up to then."""
    known, pins = ledger.publishers(task.name), dict(ledger.pins(task.name, table))
    for label in published:
        if label not in pins and label not in known:
            pins[label] = _UNKNOWN
        elif label not in pins and isinstance(task.scope, Since):
            pins[label] = Pinned(sys.maxsize, known[label])
    return {label: pin for label, pin in pins.items() if label in published}


_Counts = Callable[[PublishRecord | None, PublishRecord], bool]


@dataclass(frozen=True)
class _Publishes:
    """All publishes of one slice that are on record, oldest first, each with the one before it."""

    slice: Slice
    steps: tuple[tuple[PublishRecord | None, PublishRecord], ...]

    def newest(self, pin: Pinned, counts: _Counts) -> PublishRecord | None:
        """The newest after the pin that counts."""
        return next((new for old, new in reversed(self.steps) if _after(new, pin) and counts(old, new)), None)

    def seen(self, pin: Pinned) -> bool:
        """Whether the slice may have been there when the table was read."""
        _, first = self.steps[0]
        return bool(first.expected) or first.version is None or first.version <= pin.version


def _past(ledger: RunLedger, up: Task) -> list[_Publishes]:
    """A publish that another ledger has seen stands at the end, without one before it."""
    by_label: dict[str, list[PublishRecord]] = defaultdict(list)
    for each in ledger.publishes(up.name):
        by_label[each.label].append(each)
    known = ledger.publishers(up.name)
    for run in ledger.runs(up.name):
        if run.generation and run.label not in known:
            unknown = PublishRecord(run.label, 0, run.version, run.generation - 1, run.generation, None, None)
            by_label[run.label].append(unknown)
    return [
        _Publishes(slice_, tuple(zip((None, *steps[:-1]), steps, strict=True)))
        for label, steps in by_label.items()
        for slice_ in _named(up, [label])
    ]


def _named(task: Task, labels: Iterable[str]) -> tuple[Slice, ...]:
    """Also the one of an incremental task."""
    if isinstance(task.scope, Since):
        return tuple(task.scope.only for label in labels if label == task.scope.only.label)
    return slices_named(task.scope, labels)


def _newest(
    past: Sequence[_Publishes], task: Task, up: Task, source: Read, pins: Mapping[str, Pinned]
) -> Iterator[tuple[str, PublishRecord]]:
    """By label the publishes of `up` after the pin that changed what is read by this input. Which other days a merge
    changed only the table knows."""
    whole = isinstance(task.scope, Since) or reads_all(task, up, source)
    counts: _Counts = (lambda old, new: _rewrites(up, task, old, new)) if whole else _differs
    exact = None if whole else exact_readers(up, source)
    for each in past:
        read = pins
        if not whole:
            below = exact(task.scope, each.slice) if exact is not None and isinstance(task.scope, TimeScope) else ()
            read = {reader.label: pins[reader.label] for reader in below if reader.label in pins}
        for label, pin in read.items():
            new = each.newest(pin, counts)
            if new is not None and (not whole or each.seen(pin)):
                yield label, new


def _after(publish: PublishRecord, pin: Pinned) -> bool:
    """Not by the version alone: a table that was dropped and made again counts its versions from the start."""
    return publish.fence > pin.fence or (publish.version is not None and publish.version > pin.version)


def _rewrites(up: Task, task: Task, old: PublishRecord | None, new: PublishRecord) -> bool:
    """Whether rows that were there before a publish may be others after it."""
    if up.write.kind == "append" or (old is None and not new.expected):
        return False
    if new.changes is None or not _follows(old, new):
        return _differs(old, new)
    # A newer row comes with a newer cursor and is read by the next run, unless it was only equally new.
    read_again = isinstance(task.scope, Since) and task.scope.cursor == up.write.newest_by and not new.changes.ties
    return bool(new.changes.deleted or (new.changes.updated and not read_again))


def _differs(old: PublishRecord | None, new: PublishRecord) -> bool:
    """Whether a slice may hold other rows after a publish than before it."""
    if not _follows(old, new):
        return True
    if new.changes is not None:
        return bool(new.changes.inserted or new.changes.updated or new.changes.deleted)
    return old is None or new.fingerprint is None or old.fingerprint != new.fingerprint


def _follows(old: PublishRecord | None, new: PublishRecord) -> bool:
    """Whether nothing was published in between that is not on record. A table that was made again starts over."""
    return not new.expected if old is None else new.expected == old.generation
