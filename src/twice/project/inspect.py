"""What is known of an opened project: its ledger and its declarations are read. No Spark is started but for `look`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from twice.core.failure.interruption import interruption
from twice.core.failure.root_cause import in_one_line
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState, RunRecord
from twice.core.project.graph import TaskNode
from twice.core.project.graph import graph as graph_of
from twice.core.results.calendar import Page, SliceStates, newest_published, scope_word, slice_states
from twice.core.results.calendar import calendar as calendar_of
from twice.core.results.proof import ProofRecord
from twice.core.results.status import History, Status, TaskStatus
from twice.core.scope import cut_of, slice_named, slices_named
from twice.core.since import CursorValue, Since, mark_text
from twice.core.table.mark import kind_of, mark_of
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError, UsageError
from twice.project import effects as outbox
from twice.project import ledger
from twice.runtime.staleness.kept import not_right
from twice.runtime.staleness.look_at import look_at
from twice.runtime.staleness.stale import Stale
from twice.runtime.table.settle import attempts_not_reporting
from twice.runtime.table.stored_mark import stored_mark
from twice.wiring.open_project import OpenProject

_ALL = 1_000_000_000
_NEVER_PUBLISHED = "never published"


def status(opened: OpenProject, which: str | Sequence[str] | None, limit: int | None, refresh: bool = False) -> Status:
    """The last attempt at each slice and what else is known, of one task, of several or of all. `limit`: so many slices
    at most. `refresh`: the tables are looked at again before."""
    if which is None or isinstance(which, str):
        return _status(opened, which, limit, refresh)
    return _of_several(opened, which, limit, refresh)


def _status(opened: OpenProject, task: str | None, limit: int | None, refresh: bool) -> Status:
    name = opened.project.task(task).name if task else None
    not_looked_at = look(opened, name) if refresh else {}
    found = opened.ledger.overview(name, limit or _ALL)
    not_reporting = attempts_not_reporting(opened.ledger, name)
    known = _Known(opened, name)
    old = known.stale if found.runs else ()
    return Status(
        found.runs,
        found.total,
        found.failed,
        found.last_failed,
        stale={(each.task, each.slice.label): each.why for each in old},
        marks=marks(opened, found.runs),
        effects=outbox.counts(opened, name),
        proofs=tuple(each for proved, each in known.proofs.items() if name is None or proved == name),
        tables_to_ask=ledger.tables_to_ask(opened),
        silent=frozenset((run.task, run.label) for run in found.runs if run.last_attempt in not_reporting),
        kept={(each.task, each.slice.label): each.way_out for each in old if each.way_out is not None},
        tasks=tuple(known.task_status(each, not_reporting) for each in known.names),
        not_looked_at=not_looked_at,
    )


def _of_several(opened: OpenProject, names: Sequence[str], limit: int | None, refresh: bool) -> Status:
    not_looked_at: dict[str, str] = {}
    for name in names if refresh else ():
        not_looked_at |= look(opened, name)
    effects: Counter[EffectState] = Counter()
    for name in names:
        effects.update(outbox.counts(opened, name))
    return replace(_status(opened, None, None, False).of(names, effects, limit), not_looked_at=not_looked_at)


def look(opened: OpenProject, task: str | None) -> dict[str, str]:
    """Look again at what a task, or every one, has published, and keep what is found until the next look. Starts
    Spark, and reads only. Which tasks could not be looked at, and why: the look before stays. Dying in here has kept
    the looks at the tasks before."""
    failed: dict[str, str] = {}
    chosen = _chosen(opened, task)
    for at, one in enumerate(chosen, 1):
        if isinstance(one.scope, Since):
            continue  # it goes on from its mark; what was changed behind that is in the ledger
        opened.context.progress.counts(at, len(chosen), "task")
        try:
            opened.ledger.record_look(look_at(opened.context, one, opened.context.engine.fresh()))
        except Exception as error:
            if interruption(error) is not None:
                raise
            failed[one.name] = in_one_line(error)
    return failed


def _chosen(opened: OpenProject, task: str | None) -> tuple[Task, ...]:
    return opened.project.in_order() if task is None else (opened.project.task(task),)


class _Known:
    """What the ledger has of the project's tasks, or of one: read once."""

    def __init__(self, opened: OpenProject, task: str | None) -> None:
        self._opened = opened
        self._tasks = {each.name: each for each in _chosen(opened, task)}
        self._looks = opened.ledger.looks()
        self._runs: dict[str, list[RunRecord]] = defaultdict(list)
        for run in opened.ledger.runs(task):
            self._runs[run.task].append(run)
        self.stale = stale(opened, task)
        self.proofs = proofs(opened)

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the graph; then those that are not declared any more."""
        return (*self._tasks, *sorted(self._runs.keys() - self._tasks.keys()))

    def task_status(self, name: str, not_reporting: frozenset[str]) -> TaskStatus:
        task, runs = self._tasks.get(name), self._runs[name]
        if task is None:
            gone = slice_states(None, runs, not_reporting)
            return TaskStatus(name, None, gone.newest, gone.published, failed=self._failed(runs, gone))
        states = slice_states(task.scope, runs, not_reporting, self._newest_of_inputs(task))
        looked = self._looks.get(name)
        seen = _still_true(self._opened, task, looked, runs)
        lost = {each.label: each.why for each in seen if each.status == "missing"}
        missing = {**dict.fromkeys(states.missing, _NEVER_PUBLISHED), **lost}
        return TaskStatus(
            name,
            scope_word(task.scope),
            marks(self._opened, runs).get((name, states.newest or ""), states.newest),
            states.published - len(lost),
            dict(sorted(missing.items())),
            self._failed(runs, states),
            {each.slice.label: each.why for each in self.stale if each.task == name},
            states.running,
            states.silent,
            self.proofs.get(name),
            None if looked is None else looked.at,
            looked is None or looked.code == self._opened.code_hash(task),
        )

    def _newest_of_inputs(self, task: Task) -> str | None:
        """The newest slice of a task that this one reads slice by slice, where both are cut in the same way."""
        project = self._opened.project
        cut = {project.located(each.table) for each in task.tables.values() if each.by is not None}
        above = [up for up in project.upstream(task) if project.located(up.target) in cut]
        same = [up for up in above if isinstance(up.scope, TimeScope) and cut_of(up.scope) == cut_of(task.scope)]
        found = [newest_published(up.scope, self._runs[up.name] or self._opened.ledger.runs(up.name)) for up in same]
        return max(filter(None, found), default=None)

    def _failed(self, runs: Sequence[RunRecord], states: SliceStates) -> dict[str, str]:
        """Why each failed: the error of the last attempt."""
        by_label = {run.label: run for run in runs}
        return {label: _why_failed(self._opened, by_label[label]) for label in states.failed}


def _why_failed(opened: OpenProject, run: RunRecord) -> str:
    state = "quarantined" if run.quarantined else run.last_state.value if run.last_state else "failed"
    last = opened.ledger.attempt(run.last_attempt) if run.last_attempt is not None else None
    what = (last.error or {}).get("what") if last is not None else None
    if not what:
        return state
    return what if state == AttemptState.FAILED.value else f"{state}: {what}"


def _still_true(
    opened: OpenProject, task: Task, looked: Look | None, runs: Sequence[RunRecord]
) -> tuple[SeenSlice, ...]:
    """What the last look found, of slices that nobody has tried since. Of other code it says nothing: what is stale by
    the code of now is in the ledger."""
    if looked is None or looked.code != opened.code_hash(task):
        return ()
    published = {run.label: run for run in runs if run.generation}
    return tuple(each for each in looked.seen if each.label in published and each.is_about(published[each.label]))


def history(opened: OpenProject, task: str, date: str | None, limit: int) -> History:
    """The attempts at a task's slices, or at one of them, newest first."""
    name = opened.task_name(task)
    label = slice_named(opened.project.task(name).scope, date).label if date is not None else None
    return History(opened.ledger.attempts(name, label, limit))


def stale(opened: OpenProject, task: str | None) -> tuple[Stale, ...]:
    """What is stale, and why: as the ledger knows, and as the last look found."""
    looks: Mapping[str, Look] = opened.ledger.looks()
    return tuple(each for one in _chosen(opened, task) for each in _stale(opened, one, looks.get(one.name)))


def _stale(opened: OpenProject, task: Task, looked: Look | None) -> tuple[Stale, ...]:
    """Where both know a slice, the ledger's reason is the one of now."""
    found = {each.slice: each for each in not_right(opened.project, opened.ledger, task, opened.code_of(task))}
    if looked is not None and looked.seen:
        for each in _still_true(opened, task, looked, opened.ledger.runs(task.name)):
            for slice_ in slices_named(task.scope, [each.label] if each.status == "stale" else []):
                found.setdefault(slice_, Stale(task.name, slice_, each.why))
    return tuple(found[slice_] for slice_ in sorted(found))


def calendar(opened: OpenProject, task: str) -> tuple[Page, ...]:
    """The slices of a task by month (or day), with the state of each."""
    declared = opened.project.task(task)
    if not isinstance(declared.scope, TimeScope):
        raise UsageError("this task's work is not cut by time; it has no calendar", where=task, fix="Leave it out.")
    found = {each.slice.label for each in stale(opened, declared.name)}
    not_reporting = attempts_not_reporting(opened.ledger, declared.name)
    return calendar_of(declared.scope, opened.ledger.runs(declared.name), found, not_reporting)


def marks(opened: OpenProject, runs: Sequence[RunRecord]) -> dict[tuple[str, str], str]:
    """The mark of each run of an incremental task, by task and label: its generation is the number of a mark, which
    says by itself what it counts, also where its task is not declared any more or is declared otherwise."""
    found = {}
    for run in runs:
        mark = mark_of(run.generation) if kind_of(run.generation) is not None else _counted(opened, run)
        if mark is not None:
            found[run.task, run.label] = mark_text(mark)
    return found


def _counted(opened: OpenProject, run: RunRecord) -> CursorValue | None:
    """The mark of a number that counts from the `initial` of its time; None where it is not a mark, or not known."""
    declared = opened.project.tasks.get(run.task)
    if declared is None or not isinstance(declared.scope, Since):
        return None
    try:
        return stored_mark(opened.ledger, declared, declared.scope, run.generation)
    except DeclarationError:
        return None  # the error of its next run gives the reason


def proofs(opened: OpenProject) -> dict[str, tuple[ProofRecord, bool]]:
    """The last proof of each task of the project, and whether it is of the task's code as it is now."""
    tasks = opened.project.tasks
    found = opened.ledger.proofs()
    return {
        name: (found[name], found[name].code_hash == opened.code_hash(tasks[name])) for name in tasks if name in found
    }


def graph(opened: OpenProject) -> tuple[TaskNode, ...]:
    """Which task reads from which, in the order of `run_all`."""
    return graph_of(opened.project)
