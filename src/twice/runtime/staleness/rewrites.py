"""Which publishes of a task changed rows that were there before, as far as the ledger knows.

A slice's first publish with `replace()` brings new rows only, unless the table held rows of others there (it was
another task's, or was cut differently: that is written down with the publish); the same fingerprint, the same rows; of
a merge its counts say it. Where a publish before it is not on record, it counts as a change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from twice.core.ledger.record import Pinned, PublishRecord
from twice.core.ports import RunLedger
from twice.core.table.mark import kind_of
from twice.core.task import Task
from twice.core.write import Changes

Bounds = tuple[Pinned, ...]
"""Up to where a table was read, and then up to where a person has accepted what was made of it, if one has."""


@dataclass(frozen=True)
class ReaderMark:
    """Where an incremental reader goes on: from this version of its token, by this column."""

    cursor: str
    version: int

    def reads(self, up: Task, changes: Changes) -> bool:
        """Whether what a merge has updated is read by the next run: each with a newer stamp by that column, and none of
        these behind the mark. A row that was only equally new has the stamp that it had."""
        if self.cursor != up.write.newest_by or changes.ties or changes.oldest_update is None:
            return False
        return kind_of(changes.oldest_update) == kind_of(self.version) and changes.oldest_update >= self.version


@dataclass(frozen=True)
class Publishes:
    """All publishes of one slice that are on record, oldest first, each with the one before it."""

    label: str
    steps: tuple[tuple[PublishRecord | None, PublishRecord], ...]

    def seen(self, pin: Pinned) -> bool:
        """Whether the slice may have been there when the table was read."""
        _, first = self.steps[0]
        return bool(first.expected) or first.version is None or first.version <= pin.version


@dataclass(frozen=True)
class Past:
    """What a task has published, by slice. `restart`: the fence of the last publish that shows the table to have been
    made again; 0: none does."""

    task: Task
    slices: tuple[Publishes, ...]
    restart: int = 0

    def rewritten(self, bounds: Bounds, mark: ReaderMark | None = None) -> tuple[str, ...]:
        """The labels of slices that beyond these bounds changed rows which may have been read. `mark`: of a reader that
        goes on from there."""
        return tuple(each.label for each in self.slices if self._is_rewritten(each, bounds, mark))

    def differs(self, each: Publishes, bounds: Bounds) -> bool:
        """Whether the slice holds other rows than when it was read."""
        return any(self._after(new, bounds) and _differs(old, new) for old, new in each.steps)

    def _is_rewritten(self, each: Publishes, bounds: Bounds, mark: ReaderMark | None) -> bool:
        later = [new for old, new in each.steps if self._after(new, bounds) and _rewrites(self.task, mark, old, new)]
        # What a merge changes may be a row of any slice; and so may what a first publish has replaced.
        anywhere = self.task.write.kind == "upsert" or any(new.overwrote for new in later)
        return bool(later) and (anywhere or each.seen(bounds[0]))

    def _after(self, publish: PublishRecord, bounds: Bounds) -> bool:
        return all(is_after((publish.version, publish.fence), pin, self.restart) for pin in bounds)


def past_of(ledger: RunLedger, up: Task) -> Past:
    """A publish that another ledger has seen stands at the end of its slice's, without one before it."""
    by_label: dict[str, list[PublishRecord]] = defaultdict(list)
    published = ledger.publishes(up.name)
    for each in published:
        by_label[each.label].append(each)
    known = ledger.publishers(up.name)
    for run in ledger.runs(up.name):
        if run.generation and run.label not in known:
            unknown = PublishRecord(run.label, 0, run.version, run.generation - 1, run.generation, None, None)
            by_label[run.label].append(unknown)
    slices = (
        Publishes(label, tuple(zip((None, *steps[:-1]), steps, strict=True))) for label, steps in by_label.items()
    )
    return Past(up, tuple(slices), restart_in(published))


def restart_in(published: Iterable[PublishRecord]) -> int:
    """The fence of the last publish that shows the table to have been made again, or put back: it is not at a newer
    version than an earlier one of its slice, or at the very version of another one. 0: none does."""
    newest: dict[str, int] = {}
    makers: dict[int, int] = {}
    last = 0
    for each in sorted(published, key=lambda each: each.fence):
        if each.version is None:
            continue
        if each.version <= newest.get(each.label, -1) or makers.get(each.version, each.fence) != each.fence:
            last = each.fence
        newest[each.label] = max(each.version, newest.get(each.label, -1))
        makers[each.version] = each.fence
    return last


def is_after(publish: tuple[int | None, int], pin: Pinned, restart: int) -> bool:
    """Whether a publish, by its version and the fence of its attempt, came after what was read. The version says it:
    who claimed first may read last. Only a table that was made again counts its versions from the start: then, and
    where the version is not known, the order of the attempts says it."""
    version, fence = publish
    if version is not None and version > pin.version:
        return True
    return fence > pin.fence and (version is None or restart > pin.fence)


def _rewrites(up: Task, mark: ReaderMark | None, old: PublishRecord | None, new: PublishRecord) -> bool:
    """Whether rows that were there before a publish may be others after it."""
    if up.write.kind == "append":
        return False
    if up.write.kind == "replace" and old is None and not new.expected:
        return new.overwrote
    if new.changes is None or not _follows(old, new):
        return _differs(old, new)
    read_again = mark is not None and mark.reads(up, new.changes)
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
