"""What the ledger alone knows to be stale: slices whose input was published again since, whose code changed, or of
which rows were displaced by those of other slices; and which slices failed.

Nothing but the ledger is read: what other systems did to a table of theirs is for a run to find out, and so is which
days' rows a merge changed beside those of its own slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twice.core.ledger.code_parts import TaskCode
from twice.core.ledger.record import Pinned, RunRecord
from twice.core.ports import RunLedger, RunRecords
from twice.core.project.graph import reading_slices, values_of
from twice.core.project.project import Project
from twice.core.scope import Whole, slices_named
from twice.core.slice import Slice
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.runtime.staleness.code_change import code_changes
from twice.runtime.staleness.decide import INPUTS_NOT_NAMED, rerun_of
from twice.runtime.staleness.rewrites import is_after, restart_in
from twice.runtime.table.displaced_rows import displaced
from twice.runtime.table.settle import attempts_not_reporting


@dataclass(frozen=True)
class Stale:
    """One published slice that is not right any more, and why. `way_out`: what a person can do where no run computes
    it again by itself."""

    task: str
    slice: Slice
    why: str
    way_out: str | None = None


def stale_slices(
    project: Project,
    ledger: RunLedger,
    task: Task,
    code: TaskCode | None = None,
    due: Mapping[str, set[str]] | None = None,
) -> tuple[Stale, ...]:
    """The stale slices of a task, oldest first. `code` is its code as it is now, if that counts.
    `due`: only what is stale because of these slices of other tasks, by task and label."""
    if not isinstance(task.scope, TimeScope | Whole):
        return ()
    published = {run.label: run for run in ledger.runs(task.name) if run.generation and not _adopted(run)}
    if not published:
        return ()
    found: dict[str, str] = {}
    if due is None:
        found = {label: INPUTS_NOT_NAMED for label in sorted(displaced(ledger, task)) if label in published}
    if rerun_of(task) != "never":
        inputs = _by_other_inputs(project, ledger, task, published, due)
        found |= _by_either(_by_other_code(ledger, task, published, code), inputs)
    return tuple(Stale(task.name, slice_, found[slice_.label]) for slice_ in sorted(slices_named(task.scope, found)))


def _adopted(run: RunRecord) -> bool:
    """Declared right by a person, whatever it was made from."""
    return run.intention is not None and run.intention.adopted


def _by_either(code: Mapping[str, str], inputs: Mapping[str, str]) -> dict[str, str]:
    return {**code, **{label: f"{code[label]}, and {why}" if label in code else why for label, why in inputs.items()}}


def _by_other_code(
    ledger: RunLedger, task: Task, published: Mapping[str, RunRecord], code: TaskCode | None
) -> dict[str, str]:
    """The slices whose code is another by now, and which part of it."""
    if code is None:
        return {}
    intentions = {label: run.intention for label, run in published.items() if run.intention is not None}
    found = code_changes(ledger, task, code, intentions.values())
    return {label: found[each.code] for label, each in intentions.items() if each.code != code.hash}


def _by_other_inputs(
    project: Project,
    ledger: RunLedger,
    task: Task,
    published: Mapping[str, RunRecord],
    due: Mapping[str, set[str]] | None,
) -> dict[str, str]:
    """The slices whose inputs are others by now, and why: the first input that is."""
    found: dict[str, str] = {}
    for up in project.upstream(task):
        wanted = None if due is None else due.get(up.name, set())
        if wanted is None or wanted:
            readers = _readers(project, ledger, task, up, published)
            for label, why in _published_since(project, ledger, readers, up, wanted):
                if label in published:
                    found.setdefault(label, why)
    return found


def failed_labels(ledger: RunLedger, task: str) -> tuple[str, ...]:
    """Quarantined, failed, rejected by an audit, or left behind by a process that died. In order."""
    dead = attempts_not_reporting(ledger, task)
    return tuple(run.label for run in ledger.runs(task) if run.failed or run.last_attempt in dead)


def reads_of(project: Project, below: Task, up: Task) -> tuple[Read, ...]:
    """The inputs by which a task reads what another one writes, without those that are not watched: what is published
    there makes no slice stale."""
    above = project.located(up.target)
    return tuple(each for each in below.tables.values() if each.watch and project.located(each.table) == above)


def readers_of(ledger: RunRecords, below: Task, up: Task, source: Read, slice_: Slice) -> tuple[Slice, ...]:
    """The slices of a task that read what a slice of another one holds. Where the column it is read by says nothing
    about that, or the slice does not own its rows (a merge changes rows of any day), every slice there is has."""
    if isinstance(below.scope, Whole):
        return (below.scope.only,)
    if not isinstance(below.scope, TimeScope):
        return ()
    exact = exact_readers(up, source)
    found = set(exact(below.scope, slice_)) if exact is not None else set()
    if exact is None or not _owns_rows(up):
        found.update(slices_named(below.scope, [run.label for run in ledger.runs(below.name) if run.generation]))
    return tuple(sorted(found))


def reached(project: Project, ledger: RunRecords, task: Task, due: Mapping[str, set[str]]) -> set[str]:
    """The labels of a task's published slices that read one of these slices of other tasks, right or not: what is
    right by now may have been made just before somebody died, and what reads it in turn is not."""
    if not isinstance(task.scope, TimeScope | Whole):
        return set()
    published = {run.label for run in ledger.runs(task.name) if run.generation}
    found: set[str] = set()
    for up in project.upstream(task):
        above = slices_named(up.scope, sorted(due.get(up.name, set())))
        for source in reads_of(project, task, up) if above else ():
            exact = exact_readers(up, source) if _owns_rows(up) else None
            if exact is None or not isinstance(task.scope, TimeScope):
                return published  # which of them read rows that it changed is seen where one is stale
            found.update(reader.label for slice_ in above for reader in exact(task.scope, slice_))
    return found & published


def exact_readers(up: Task, source: Read) -> Callable[[TimeScope, Slice], tuple[Slice, ...]] | None:
    """How the readers of a slice follow from its values in the column it is read by; None if they do not."""
    scope, column = up.scope, source.by
    if column is None or not isinstance(scope, TimeScope) or values_of(scope, scope.first, column) is None:
        return None

    def exactly(below: TimeScope, slice_: Slice) -> tuple[Slice, ...]:
        values = values_of(scope, slice_, column)
        return () if values is None else reading_slices(below, values, source.before)

    return exactly


def _owns_rows(up: Task) -> bool:
    return up.write.layout(up.scope).slice_column is not None


def reads_all(task: Task, up: Task, source: Read) -> bool:
    """Whether every slice of the task reads rows of every publish: it reads the whole table, or that is exchanged."""
    if source.by is None or isinstance(task.scope, Whole):
        return True
    return isinstance(up.scope, Whole) and up.write.kind == "replace"


def reads_unknown(task: Task, up: Task, source: Read) -> bool:
    """Whether only the table can say which slices of the task read rows that a publish changed."""
    return not reads_all(task, up, source) and (not _owns_rows(up) or exact_readers(up, source) is None)


@dataclass(frozen=True)
class _Publish:
    """The last publish of a slice. `fence`: of the attempt that made it; 0 where the ledger does not know it.
    `restart`: see `rewrites.restart_in`."""

    label: str
    version: int | None
    fence: int
    restart: int

    def is_after(self, pin: Pinned) -> bool:
        return is_after((self.version, self.fence), pin, self.restart)


def _version(publish: _Publish) -> int:
    return -1 if publish.version is None else publish.version


_NEVER = Pinned(-1, -1)
"""The pin of a slice of which it is not known what it read: before every publish."""


@dataclass(frozen=True)
class _Readers:
    """The published slices of a task that read a table: by label, up to which version each is known to be right."""

    task: Task
    table: str
    pins: Mapping[str, Pinned]


def _readers(project: Project, ledger: RunLedger, task: Task, up: Task, published: Iterable[str]) -> _Readers:
    """Where the attempt that published a slice is on record without such a version, its code did not read the table.
    Where none is (the ledger was rebuilt, another one has seen the publish), in doubt it read an old one."""
    table = str(project.located(up.target))
    pins = dict(ledger.pins(task.name, table))
    missing = [label for label in published if label not in pins]
    if missing:
        known = ledger.publishers(task.name)
        pins.update((label, _NEVER) for label in missing if label not in known)
    return _Readers(task, table, pins)


def _published_since(
    project: Project, ledger: RunLedger, readers: _Readers, up: Task, wanted: set[str] | None
) -> Iterator[tuple[str, str]]:
    """Slices that read a slice of `up` which was published after they looked, and which; and those that read another
    table than the last of them."""
    task, table, pins = readers.task, readers.table, readers.pins
    sources = reads_of(project, task, up)
    if not pins or not sources:
        return
    fences, restart = ledger.publishers(up.name), restart_in(ledger.publishes(up.name))
    remade = [
        _Publish(run.label, run.version, fences.get(run.label, 0), restart)
        for run in ledger.runs(up.name)
        if run.generation and (wanted is None or run.label in wanted)
    ]
    for source in sources:
        for label, by in _newest(task, up, source, remade, pins).items():
            if pins[label] is not _NEVER:
                yield label, f"its input {table} was published again since: {up.name}[{by.label}]"
            else:
                yield label, f"there is no record of which version of its input {table} it read"
    if wanted is None:
        last = max(pins.values(), key=lambda pin: pin.fence)
        for label, pin in pins.items():
            if pin is _NEVER:
                yield label, f"there is no record of which version of its input {table} it read"
            elif pin.id is not None and last.id not in (None, pin.id):
                yield label, f"its input {table} was recreated, or replaced by an older copy, since it was read"


def _newest(
    task: Task, up: Task, source: Read, remade: Sequence[_Publish], pins: Mapping[str, Pinned]
) -> dict[str, _Publish]:
    """By label of the task: of the publishes that it reads and has not seen, the newest."""
    ordered = sorted(remade, key=lambda each: (each.fence, _version(each)))
    if reads_all(task, up, source):
        last = [max(ordered, key=_version), ordered[-1]] if ordered else []
        return {label: each for each in last for label, pin in pins.items() if each.is_after(pin)}
    found: dict[str, _Publish] = {}
    if ordered and reads_unknown(task, up, source):
        found = {label: ordered[-1] for label, pin in pins.items() if pin is _NEVER}
    exact = exact_readers(up, source)
    if exact is None or not isinstance(task.scope, TimeScope):
        return found
    oldest = Pinned(min(pin.version for pin in pins.values()), min(pin.fence for pin in pins.values()))
    for each in ordered:
        for slice_ in slices_named(up.scope, [each.label]) if each.is_after(oldest) else ():
            read = [reader.label for reader in exact(task.scope, slice_)]
            found.update({label: each for label in read if label in pins and each.is_after(pins[label])})
    return found
