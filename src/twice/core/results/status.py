"""What `status` and `history` give: a project as far as its ledger knows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptRecord, RunRecord
from twice.core.results.proof import ProofRecord
from twice.core.results.summary import Summarized, Table, counted
from twice.core.table.mark import version_cell


@dataclass(frozen=True, repr=False)
class Status(Summarized):
    """Every slice that was ever tried, and what a person should know of them.

    `runs` are the last of `total`, of which `failed` ended badly when they were last tried (`last_failed` is one of
    them). `stale` says why, `marks` how far an incremental task has read, both by task and label. `effects` counts all
    of them by state. `proofs` are the last of each task, and whether each is of the code as it is now.
    `tables_to_ask`: tasks with old records that are not shown until their tables were asked. `silent`: the slices whose
    last attempt has not ended and is not running either: its process is gone, or has not reported for too long.
    `kept`: of the stale ones those that no run computes again by itself, and what a person can do.
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

    @property
    def waiting(self) -> Mapping[EffectState, int]:
        """The effects that wait for a person."""
        return {state: count for state, count in self.effects.items() if state.waits_for_a_person}

    @property
    def needs_attention(self) -> bool:
        """Whether the last attempt at a slice failed, or an effect waits for a person."""
        return bool(self.failed or self.waiting)

    def __str__(self) -> str:
        parts = [counted(self.total, "slice"), f"{self.failed:,} failed", f"{len(self.stale):,} stale"]
        waiting = sum(self.waiting.values())
        parts += [f"{counted(waiting, 'effect')} waiting for a person"] if waiting else []
        return ", ".join(parts)

    def as_table(self) -> Table:
        head = ("slice", "published", "generation", "rows", "last attempt", "stale")
        return head, [self._row(run) for run in self.runs]

    def _row(self, run: RunRecord) -> tuple[object, ...]:
        where = run.task, run.label
        last = "quarantined" if run.quarantined else run.last_state.value if run.last_state else None
        last = f"{last}, stopped reporting" if where in self.silent else last
        at = run.published if run.generation else None
        mark = self.marks.get(where) or version_cell(run.generation) or None
        return f"{run.task}[{run.label}]", at, mark, run.rows, last, self.stale.get(where)


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
