"""What is kept although what it was made of changed. An incremental task reads no row twice, and what is appended or
has `rerun="never"` stays as it is: where a slice that they have read is published again with other rows, nothing
computes them again. That is reported until a person has put it right or accepted it.

What the ledger knows: which publishes of a slice above came after what was read below, and of each whether rows that
were there before it changed (`rewrites`). An incremental task looks up to a newer version with every run: what was
changed behind its mark is written down with the run, and carried on, also by a reset of the mark, which reads nothing.
It is dealt with once the mark stands before all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twice.core.hints import command, hint
from twice.core.ledger.code_parts import TaskCode
from twice.core.ledger.record import REWRITTEN, TABLE, InputRecord, Pinned, RunRecord
from twice.core.ports import RunLedger
from twice.core.project.graph import values_of
from twice.core.project.project import Project
from twice.core.scope import Whole, slices_named
from twice.core.since import Since, type_of
from twice.core.slice import Slice
from twice.core.table.mark import kind_of, version_of
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.runtime.staleness.decide import rerun_of
from twice.runtime.staleness.rewrites import Bounds, Past, ReaderMark, past_of
from twice.runtime.staleness.stale import Stale, exact_readers, reads_all, reads_of, stale_slices

ALLOW = "rewritten_input"
"""In `Policy(allow=...)`: the task is meant to keep what it read."""

_UNKNOWN = Pinned(-1, -1)
"""The pin of a slice of which it is not known what it read."""


def not_right(project: Project, ledger: RunLedger, task: Task, code: TaskCode | None = None) -> tuple[Stale, ...]:
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
    found: dict[str, list[_Rewritten]] = {}
    for up in project.upstream(task) if published else ():
        for label, each in _changed(project, ledger, task, up, published).items():
            found.setdefault(label, []).append(each)
    return tuple(
        Stale(task.name, each, ", and ".join(map(str, found[each.label])), _way_out(task, each, found[each.label]))
        for each in _named(task, found)
    )


def left_behind(project: Project, ledger: RunLedger, task: Task, mark: int | None = None) -> tuple[InputRecord, ...]:
    """What an incremental run has to write down before its publish moves the pins on: the slices that were changed
    behind its mark. The ledger must know all that is published up to the versions that the run has read: see
    `settle_above`. With `mark`: what a reset to it has to write down, by the token's version. Changes nothing."""
    if not isinstance(task.scope, Since):
        return ()
    label = task.scope.only.label
    held = {label: run for label, run in ledger.runs_of(task.name, [label]).items() if run.generation}
    if mark is not None:
        held = {label: replace(run, generation=mark) for label, run in held.items()}
    return tuple(
        InputRecord(label, REWRITTEN, each.table, name, None)
        for up in (project.upstream(task) if held else ())
        for each in _changed(project, ledger, task, up, held).values()
        for name in (*(None,) * each.unknown, *each.slices)
    )


def carried(project: Project, ledger: RunLedger, task: Task, mark: int) -> tuple[InputRecord, ...]:
    """What the reset of a mark has to write down: it reads nothing, so up to where the task has read, or a person has
    accepted it, stays as it was, and so does what was changed behind its mark, but for what lies beyond the new one.
    Changes nothing."""
    assert isinstance(task.scope, Since)
    label, pins = task.scope.only.label, []
    for each in ledger.inputs(task.name, [label]).get(label, ()):
        if each.kind == TABLE and each.version is not None:
            accepted = ledger.accepted(task.name, each.name).get(label)
            pins.append(each if accepted is None else replace(each, version=max(each.version, accepted.version)))
    return (*pins, *left_behind(project, ledger, task, mark))


@dataclass(frozen=True)
class _Rewritten:
    """The slices of the task above that were changed after they were read, each by the task's and its own name, in
    order. `unknown`: there is no record of what was read."""

    table: str
    slices: tuple[str, ...]
    unknown: bool = False

    def __str__(self) -> str:
        if self.unknown:
            return f"there is no record of which version of its input {self.table} it read"
        named = self.slices[0]
        if len(self.slices) > 1:
            named = f"{named} to {self.slices[-1]} ({len(self.slices)} slices)"
        return f"its input {self.table} was published again after it was read: {named}"


def _way_out(task: Task, slice_: Slice, found: Sequence[_Rewritten]) -> str:
    """What a person can do. That it is dealt with is seen by itself where a slice is restated, or a mark is set back
    before all that changed, if the ledger can tell."""
    accepted = f"twice accept {task.name} --reason REASON"
    if not task.write.restatable or (isinstance(task.scope, Since) and task.write.kind == "append"):
        return f"correct its rows by hand if they must be, then {accepted}"
    if isinstance(task.scope, Since):
        earliest = [each.slices[0] for each in found if not each.unknown]
        before = " and ".join(f"the first row of {each}" for each in earliest) or "the first row that it read"
        reset = f"twice mark reset {task.name} --to MARK --reason REASON"
        return f"{reset}, with a MARK before {before}, and run it; once it is right: {accepted}"
    date = None if isinstance(task.scope, Whole) else slice_.label
    return hint("{}, or {}", command("restate", task.name, date=date), accepted)


def _changed(
    project: Project, ledger: RunLedger, task: Task, up: Task, published: Mapping[str, RunRecord]
) -> dict[str, _Rewritten]:
    """By label of the task: the slices of the task above that were changed after it read them."""
    table = str(project.located(up.target))
    pins = _pins(ledger, task, table, published)
    if not pins:
        return {}
    past, accepted = past_of(ledger, up), ledger.accepted(task.name, table)
    bounds = {label: (pin, *([accepted[label]] if label in accepted else [])) for label, pin in pins.items()}
    found: dict[str, set[str]] = defaultdict(set)
    for source in reads_of(project, task, up):
        for label, slices in _rewritten(past, task, source, bounds, published):
            found[label].update(f"{up.name}[{each}]" for each in slices)
    unknown = {label for label, slices in found.items() if slices and pins[label] == _UNKNOWN}
    if isinstance(task.scope, Since):
        label = task.scope.only.label
        for each in ledger.inputs(task.name, [label]).get(label, ()) if label not in accepted else ():
            if each.kind == REWRITTEN and each.name == table:
                found[label].update([] if each.identity is None else [each.identity])
                unknown.update([label] if each.identity is None else [])
        mark = published[label].generation
        if _reads_all_again(task.scope, mark):
            return {}
        found[label] -= {each for each in found[label] if _is_beyond(task.scope, mark, up, each)}
    return {
        label: _Rewritten(table, tuple(sorted(slices)), label in unknown)
        for label, slices in found.items()
        if slices or label in unknown
    }


def _reads_all_again(scope: Since, mark: int) -> bool:
    """Whether the next run reads all that there is, from the first row on."""
    return kind_of(mark) == scope.type and mark <= version_of(scope.start)


def _is_beyond(scope: Since, mark: int, up: Task, name: str) -> bool:
    """Whether all rows of a slice are beyond the mark, as far as how it is cut says it: the next run reads them. A name
    of a task that had the table before says nothing."""
    task, _, label = name.removesuffix("]").partition("[")
    if not isinstance(up.scope, TimeScope) or kind_of(mark) != scope.type or task != up.name:
        return False
    values = [values_of(up.scope, each, scope.cursor) for each in slices_named(up.scope, [label])]
    lows = [each[0] for each in values if each is not None]
    return bool(lows) and all(type_of(low) == scope.type and version_of(low) > mark for low in lows)


def _pins(ledger: RunLedger, task: Task, table: str, published: Mapping[str, RunRecord]) -> dict[str, Pinned]:
    """Up to where each published slice has read the table. One without a pin whose publish is on record did not read
    it; but a mark that was reset by an earlier twice, which wrote nothing down, says nothing of what was read."""
    known, pins = ledger.publishers(task.name), dict(ledger.pins(task.name, table))
    for label, run in published.items():
        if label not in pins and (label not in known or _is_bare_reset(ledger, task, run)):
            pins[label] = _UNKNOWN
    return {label: pin for label, pin in pins.items() if label in published}


def _is_bare_reset(ledger: RunLedger, task: Task, run: RunRecord) -> bool:
    made = ledger.attempt(run.attempt) if isinstance(task.scope, Since) and run.attempt is not None else None
    return made is not None and made.kind == "reset" and not made.inputs


def _named(task: Task, labels: Iterable[str]) -> tuple[Slice, ...]:
    """Also the one of an incremental task."""
    if isinstance(task.scope, Since):
        return tuple(task.scope.only for label in labels if label == task.scope.only.label)
    return slices_named(task.scope, labels)


def _rewritten(
    past: Past, task: Task, source: Read, bounds: Mapping[str, Bounds], published: Mapping[str, RunRecord]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By label the slices above that changed what is read by this input. Which other days a merge changed only the
    table knows."""
    up = past.task
    if isinstance(task.scope, Since):
        for label, pins in bounds.items():
            goes_on = (
                ReaderMark(task.scope.cursor, published[label].generation) if source.by == task.scope.cursor else None
            )
            yield label, past.rewritten(pins, goes_on)
        return
    if reads_all(task, up, source):
        yield from ((label, past.rewritten(pins)) for label, pins in bounds.items())
        return
    exact = exact_readers(up, source)
    if exact is None or not isinstance(task.scope, TimeScope):
        return
    for each in past.slices:
        for slice_ in slices_named(up.scope, [each.label]):
            for reader in exact(task.scope, slice_):
                if reader.label in bounds and past.differs(each, bounds[reader.label]):
                    yield reader.label, (each.label,)
