"""What the ledger alone knows to be stale: slices whose input was published again since, or whose code changed.

Nothing but the ledger is read: what other systems did to a table of theirs is for a run to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from twice.core.project import Project
from twice.core.reach import readers, values_of
from twice.core.record import TABLE, InputRecord, RunRecord
from twice.core.scope import Whole, slice_named
from twice.core.slice import Slice
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope
from twice.errors import UsageError
from twice.ledgers.store import Ledger
from twice.runtime.decide import rerun_of


@dataclass(frozen=True)
class Stale:
    """One published slice that is not right any more, and why."""

    task: str
    slice: Slice
    why: str


def stale_slices(
    project: Project,
    ledger: Ledger,
    task: Task,
    code: str | None = None,
    due: Mapping[str, set[str]] | None = None,
) -> tuple[Stale, ...]:
    """The stale slices of a task, oldest first. `code` is the hash of its code as it is now, if that shall count.
    `due`: only what is stale because of these slices of other tasks, by task and label."""
    if rerun_of(task) == "never" or not isinstance(task.scope, TimeScope | Whole):
        return ()
    published = {run.label: run for run in ledger.runs(task.name) if run.generation}
    if not published:
        return ()
    found: dict[str, str] = {}
    for label, run in published.items():
        if code is not None and run.intention is not None and run.intention.code != code:
            found[label] = "the code or its options changed"
    above = project.upstream(task)
    held = ledger.inputs(task.name) if above else {}
    for up in above:
        wanted = None if due is None else due.get(up.name, set())
        if wanted is None or wanted:
            for label, why in _since(project, ledger, task, up, (held, wanted)):
                if label in published:
                    found.setdefault(label, why)
    return tuple(Stale(task.name, slice_, found[slice_.label]) for slice_ in sorted(_slices(task, found)))


def reads_of(project: Project, below: Task, up: Task) -> tuple[Read, ...]:
    """The inputs by which a task reads what another one writes."""
    return tuple(each for each in below.inputs.values() if project.located(each.table) == project.located(up.target))


def readers_of(ledger: Ledger, below: Task, up: Task, source: Read, slice_: Slice) -> tuple[Slice, ...]:
    """The slices of a task that read what a slice of another one holds. Where the column it is read by says nothing
    about that, or the slice does not own its rows (a merge changes rows of any day), every slice there is has."""
    if isinstance(below.scope, Whole):
        return (below.scope.only,)
    if not isinstance(below.scope, TimeScope):
        return ()
    exact = _exact(up, source)
    found = set(exact(below.scope, slice_)) if exact is not None else set()
    if exact is None or not _owns_rows(up):
        found.update(_slices(below, [run.label for run in ledger.runs(below.name) if run.generation]))
    return tuple(sorted(found))


def reached(project: Project, ledger: Ledger, task: Task, due: Mapping[str, set[str]]) -> set[str]:
    """The labels of a task's published slices that read one of these slices of other tasks, right or not: what is
    right by now may have been made just before somebody died, and what reads it in turn is not."""
    if not isinstance(task.scope, TimeScope | Whole):
        return set()
    published = {run.label for run in ledger.runs(task.name) if run.generation}
    found: set[str] = set()
    for up in project.upstream(task):
        above = _slices(up, sorted(due.get(up.name, set())))
        for source in reads_of(project, task, up) if above else ():
            exact = _exact(up, source) if _owns_rows(up) else None
            if exact is None or not isinstance(task.scope, TimeScope):
                return published
            found.update(reader.label for slice_ in above for reader in exact(task.scope, slice_))
    return found & published


def _exact(up: Task, source: Read) -> Callable[[TimeScope, Slice], tuple[Slice, ...]] | None:
    """How the readers of a slice follow from its values in the column it is read by; None if they do not."""
    scope, column = up.scope, source.by
    if column is None or not isinstance(scope, TimeScope) or values_of(scope, scope.first, column) is None:
        return None

    def exactly(below: TimeScope, slice_: Slice) -> tuple[Slice, ...]:
        values = values_of(scope, slice_, column)
        return () if values is None else readers(below, values, source.before)

    return exactly


def _owns_rows(up: Task) -> bool:
    return up.write.layout(up.scope).slice_column is not None


def _since(
    project: Project,
    ledger: Ledger,
    task: Task,
    up: Task,
    known: tuple[Mapping[str, tuple[InputRecord, ...]], set[str] | None],
) -> Iterator[tuple[str, str]]:
    """Slices of the task that read a slice of `up` which was published after they looked, and which."""
    held, wanted = known
    table = str(project.located(up.target))
    seen = {label: version for label, records in held.items() if (version := _pinned(records, table)) is not None}
    if not seen:
        return
    remade = [
        run
        for run in ledger.runs(up.name)
        if run.generation and run.version is not None and (wanted is None or run.label in wanted)
    ]
    for source in reads_of(project, task, up):
        for label, by in _newest(task, up, source, remade, seen).items():
            assert by.version is not None
            if by.version > seen[label]:
                yield label, f"its input {table} was published again since: {up.name}[{by.label}]"


def _newest(
    task: Task, up: Task, source: Read, remade: list[RunRecord], seen: Mapping[str, int]
) -> dict[str, RunRecord]:
    """By label of the task: of the publishes that it reads, the newest."""
    ordered = sorted(remade, key=lambda run: run.version or 0)
    exact = _exact(up, source) if _owns_rows(up) else None
    if exact is None or not isinstance(task.scope, TimeScope):
        return dict.fromkeys(seen, ordered[-1]) if ordered else {}
    oldest = min(seen.values())
    found: dict[str, RunRecord] = {}
    for run in ordered:
        if (run.version or 0) > oldest:
            for slice_ in _slices(up, [run.label]):
                found.update({reader.label: run for reader in exact(task.scope, slice_) if reader.label in seen})
    return found


def _pinned(records: tuple[InputRecord, ...], table: str) -> int | None:
    return next((record.version for record in records if record.kind == TABLE and record.name == table), None)


def _slices(task: Task, labels: Iterable[str]) -> list[Slice]:
    """Those that the task's scope still has."""
    found = []
    for label in labels:
        try:
            found.append(slice_named(task.scope, label))
        except UsageError:
            continue
    return found
