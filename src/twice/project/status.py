"""The status of an opened project's tasks: what the ledger and the last look know of each. Starts no Spark, unless the
tables are looked at again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState, RunRecord
from twice.core.ports import RunLedger
from twice.core.results.calendar import SliceStates, newest_published, scope_word, slice_states
from twice.core.results.proof import ProofRecord
from twice.core.results.status import Status, TaskStatus, overview_of
from twice.core.scope import cut_of
from twice.core.since import CursorValue, Since, mark_text
from twice.core.table.mark import kind_of, mark_of
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError
from twice.project import effects as outbox
from twice.project import ledger
from twice.project.inspect import chosen, look, stale, still_true
from twice.runtime.staleness.read_once import reading_once
from twice.runtime.table.settle import attempts_not_reporting
from twice.runtime.table.stored_mark import stored_mark
from twice.wiring.open_project import OpenProject

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
    records = reading_once(opened.ledger)
    found = overview_of(records.runs(name), limit)
    not_reporting = attempts_not_reporting(opened.ledger, name)
    known = _Known(opened, name, records)
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


class _Known:
    """What the ledger has of the project's tasks, or of one: read once, as `records`."""

    def __init__(self, opened: OpenProject, task: str | None, records: RunLedger) -> None:
        self._opened, self._records = opened, records
        self._tasks = {each.name: each for each in chosen(opened, task)}
        self._looks = opened.ledger.looks()
        self._runs: dict[str, list[RunRecord]] = defaultdict(list)
        for run in records.runs(task):
            self._runs[run.task].append(run)
        self.stale = stale(opened, task, records)
        self._stale: dict[str, dict[str, str]] = defaultdict(dict)
        for each in self.stale:
            self._stale[each.task][each.slice.label] = each.why
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
        seen = still_true(self._opened, task, looked, runs)
        lost = {each.label: each.why for each in seen if each.status == "missing"}
        missing = {**dict.fromkeys(states.missing, _NEVER_PUBLISHED), **lost}
        return TaskStatus(
            name,
            scope_word(task.scope),
            marks(self._opened, runs).get((name, states.newest or ""), states.newest),
            states.published - len(lost),
            dict(sorted(missing.items())),
            self._failed(runs, states),
            self._stale[name],
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
        found = [newest_published(up.scope, self._runs[up.name] or self._records.runs(up.name)) for up in same]
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
