"""What `status` and `history` give: a project as far as its ledger knows it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptRecord, Overview, RunRecord
from twice.core.results.proof import ProofRecord
from twice.core.results.summary import Summarized, Table, counted, html_table
from twice.core.table.mark import version_cell


def overview_of(runs: Sequence[RunRecord], limit: int | None) -> Overview:
    """Of runs that were read anyway: the last so many of them, or all."""
    failed, shown = [run for run in runs if run.failed], runs if limit is None else runs[-limit:]
    return Overview(tuple(shown), len(runs), len(failed), failed[-1] if failed else None)


@dataclass(frozen=True, repr=False)
class TaskStatus(Summarized):
    """One task at a glance.

    `scope` is how it cuts its slices (`daily`), None where the project does not declare it any more; `newest` its
    newest published slice, of an incremental task the mark. `published` counts what is published, also what is stale or
    failed when it was last tried. `missing`: the slices, from the scope's start to the newest one that is published of
    the task, or of an input that is cut in the same way, that are not published; `failed`: those whose last attempt
    ended badly; `stale`: published ones that are not right any more; all by label, with why. `running`: those at work
    now. `silent`: those whose last attempt has not ended and is not running either. `proof`: the last one, and whether
    it is of the code as it is now. `looked`: when its tables were last looked at, by the ledger's clock; at another
    code than now if not `looked_at_this_code`, and then it counts for nothing."""

    task: str
    scope: str | None
    newest: str | None = None
    published: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)
    running: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    proof: tuple[ProofRecord, bool] | None = None
    looked: datetime | None = None
    looked_at_this_code: bool = True

    @property
    def proved(self) -> bool:
        """Whether the code as it is now was proved, and held."""
        return self.proof is not None and self.proof[0].holds and self.proof[1]

    @property
    def right(self) -> bool:
        """Whether something is published, and nothing is known that is missing, failed, stale or unreported."""
        return bool(self.published) and not (self.missing or self.failed or self.stale or self.silent)

    def __str__(self) -> str:
        cut = "not declared any more" if self.scope is None else self.scope
        newest = [] if self.newest is None else [f"newest {self.newest}"]
        return f"{self.task}: {', '.join([cut, *newest, *self.counts, *self.remarks])}"

    @property
    def counts(self) -> tuple[str, ...]:
        """How many slices are in which state, without those that are none."""
        counts = {
            "published": self.published,
            "missing": len(self.missing),
            "failed": len(self.failed),
            "stale": len(self.stale),
            "running": len(self.running),
            "stopped reporting": len(self.silent),
        }
        return tuple(f"{count:,} {what}" for what, count in counts.items() if count) or ("nothing published",)

    @property
    def remarks(self) -> tuple[str, ...]:
        """How it was proved, and when it was looked at."""
        return (*_proved(self.proof), *(() if self.looked is None else (f"looked {self.looked:%Y-%m-%d %H:%M}",)))

    def as_table(self) -> Table:
        found = {"missing": self.missing, "failed": self.failed, "stale": self.stale}
        return ("slice", "state", "why"), [
            (f"{self.task}[{label}]", state, why) for state, each in found.items() for label, why in each.items()
        ]


def _proved(proof: tuple[ProofRecord, bool] | None) -> tuple[str, ...]:
    if proof is None:
        return ()
    found, current = proof
    return (f"{'proved' if found.holds else 'NOT proved'}{'' if current else ' at another code version'}",)


@dataclass(frozen=True, repr=False)
class Status(Summarized):
    """Every slice that was ever tried, and what a person should know of them.

    `runs` are the last of `total`, of which `failed` ended badly when they were last tried (`last_failed` is one of
    them). `stale` says why, `marks` how far an incremental task has read, both by task and label. `effects` counts all
    of them by state. `proofs` are the last of each task, and whether each is of the code as it is now.
    `tables_to_ask`: tasks with old records that are not shown until their tables were asked. `silent`: the slices whose
    last attempt has not ended and is not running either: its process is gone, or has not reported for too long.
    `kept`: of the stale ones those that no run computes again by itself, and what a person can do.
    `tasks`: each task at a glance, in the order of the graph. `not_looked_at`: the tasks that were to be looked at
    again and could not be, with why.
    """

    runs: tuple[RunRecord, ...]
    total: int
    failed: int
    last_failed: RunRecord | None = None
    stale: Mapping[tuple[str, str], str] = field(default_factory=dict)
    marks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    effects: Mapping[EffectState, int] = field(default_factory=dict)
    proofs: tuple[tuple[ProofRecord, bool], ...] = ()
    tables_to_ask: tuple[str, ...] = ()
    silent: frozenset[tuple[str, str]] = frozenset()
    kept: Mapping[tuple[str, str], str] = field(default_factory=dict)
    tasks: tuple[TaskStatus, ...] = ()
    not_looked_at: Mapping[str, str] = field(default_factory=dict)

    @property
    def waiting(self) -> Mapping[EffectState, int]:
        """The effects that wait for a person."""
        return {state: count for state, count in self.effects.items() if state.waits_for_a_person}

    @property
    def needs_attention(self) -> bool:
        """Whether the last attempt at a slice failed, an effect waits for a person, or a look was not possible."""
        return bool(self.failed or self.waiting or self.not_looked_at)

    def of(self, names: Collection[str], effects: Mapping[EffectState, int], limit: int | None) -> Status:
        """The same of some tasks alone, `effects` counted for them."""
        runs = tuple(run for run in self.runs if run.task in names)
        failed = [run for run in runs if run.failed]

        def mine(each: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
            return {where: what for where, what in each.items() if where[0] in names}

        return replace(
            self,
            runs=runs if limit is None else runs[:limit],
            total=len(runs),
            failed=len(failed),
            last_failed=failed[0] if failed else None,
            stale=mine(self.stale),
            marks=mine(self.marks),
            effects=effects,
            proofs=tuple(each for each in self.proofs if each[0].task in names),
            tables_to_ask=tuple(name for name in self.tables_to_ask if name in names),
            silent=frozenset(where for where in self.silent if where[0] in names),
            kept=mine(self.kept),
            tasks=tuple(task for task in self.tasks if task.task in names),
        )

    def __str__(self) -> str:
        parts = [counted(self.total, "slice"), f"{self.failed:,} failed", f"{len(self.stale):,} stale"]
        waiting = sum(self.waiting.values())
        parts += [f"{counted(waiting, 'effect')} waiting for a person"] if waiting else []
        return ", ".join(parts)

    def as_table(self) -> Table:
        head = ("slice", "published", "generation", "rows", "last attempt", "stale")
        return head, [self._row(run) for run in self.runs]

    def _repr_html_(self) -> str:
        """The tasks first, then slice by slice."""
        slices = super()._repr_html_()
        if not self.tasks:
            return slices
        head = ("task", "scope", "newest", "published", "missing", "failed", "stale", "running", "proved", "looked at")
        tasks = html_table(counted(len(self.tasks), "task"), head, [_task_row(each) for each in self.tasks])
        return f"<div>{tasks}{slices}</div>"

    def _row(self, run: RunRecord) -> tuple[object, ...]:
        where = run.task, run.label
        last = "quarantined" if run.quarantined else run.last_state.value if run.last_state else None
        last = f"{last}, stopped reporting" if where in self.silent else last
        at = run.published if run.generation else None
        mark = self.marks.get(where) or version_cell(run.generation) or None
        return f"{run.task}[{run.label}]", at, mark, run.rows, last, self.stale.get(where)


def _task_row(task: TaskStatus) -> tuple[object, ...]:
    counts = [len(each) for each in (task.missing, task.failed, task.stale, task.running)]
    proved = ", ".join(_proved(task.proof)) or None
    return task.task, task.scope, task.newest, task.published, *counts, proved, task.looked


class History(Summarized, tuple[AttemptRecord, ...]):
    """Attempts, newest first: a tuple that shows itself."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "no attempt yet"
        return f"{counted(len(self), 'attempt')}, the last {self[0].state.value}: {_where(self[0])}"

    def as_table(self) -> Table:
        head = ("slice", "attempt", "kind", "state", "started", "finished", "rows", "why")
        return head, [_attempt_row(attempt) for attempt in self]


def _attempt_row(attempt: AttemptRecord) -> tuple[object, ...]:
    rows = [slice_.rows for slice_ in attempt.slices if slice_.rows is not None]
    why = attempt.error.get("what") if attempt.error else attempt.why
    times = attempt.started, attempt.finished
    return _where(attempt), attempt.id[:8], attempt.kind, attempt.state.value, *times, sum(rows) if rows else None, why


def _where(attempt: AttemptRecord) -> str:
    labels = ", ".join(slice_.label for slice_ in attempt.slices)
    return f"{attempt.task}[{labels}]" if labels else attempt.task  # a takeover is of the whole table
