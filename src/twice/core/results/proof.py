"""What a proof says: which scenarios were played with a task, and whether its table was the same after each. Pure.

`proof.json` is `document()` of one or more proofs. Its fields only ever grow within one SCHEMA_VERSION.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from twice.core.results.summary import Summarized, Table, counted

SCHEMA_VERSION = 1
SHOWN = 3
"""So many rows of a difference are shown side by side."""


class TrialResult(str, Enum):
    """Whether the table was the same after a scenario as after one clean run."""

    SAME = "same"
    CHANGED = "CHANGED"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Scenario:
    """`name` is what --scenario takes; `what` is one line for people. Not by `default`: only on request."""

    name: str
    what: str
    default: bool = True


@dataclass(frozen=True)
class Cause:
    """What probably makes the difference, the columns it reaches (none: whole rows), and the shortest remedy."""

    name: str
    columns: tuple[str, ...]
    why: str
    fix: str


@dataclass(frozen=True)
class RowPair:
    """One row side by side: after one clean run, and after the scenario. None: there is no such row there."""

    clean: Mapping[str, Any] | None
    other: Mapping[str, Any] | None


@dataclass(frozen=True)
class Difference:
    """`columns` that differ (none: rows are there or not, as a whole); `rows` of the clean table that are not to be
    found after the scenario (`missing`) and the other way round (`added`, of which `doubled` are copies)."""

    columns: tuple[str, ...]
    missing: int
    added: int
    doubled: int = 0
    pairs: tuple[RowPair, ...] = ()
    causes: tuple[Cause, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows differ: a row with another value is one row, not two."""
        return max(self.missing, self.added)


@dataclass(frozen=True)
class Trial:
    """One scenario, played. `reason` says what was done and seen, or why it could not be."""

    scenario: str
    result: TrialResult
    reason: str
    difference: Difference | None = None
    seconds: float = 0.0


def played(scenario: str, reason: str, difference: Difference | None, seconds: float) -> Trial:
    result = TrialResult.SAME if difference is None else TrialResult.CHANGED
    return Trial(scenario, result, reason, difference, seconds)


@dataclass(frozen=True)
class SideEffect:
    """What the code tried apart from its result, and was refused. `kind`: call, file, table, process or
    signal; `where`: its file and line, if Python was asked."""

    kind: str
    what: str
    where: str


@dataclass(frozen=True, repr=False)
class Proof(Summarized):
    """`label` is the slice's; `code_hash` the code that was proved; `notes` what a person should know; `beside` what
    the code tried apart from its result; `not_blocked` what this system could not have kept it from; `refused` what in
    its plan `twice run` refuses: such a task is not proved, whatever its table was."""

    task: str
    label: str
    code_hash: str
    at: datetime
    trials: tuple[Trial, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    beside: tuple[SideEffect, ...] = ()
    not_blocked: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.result is TrialResult.CHANGED)

    @property
    def holds(self) -> bool:
        """Nothing differed, at least one scenario was really played, and `twice run` would run it."""
        return not self.changed and not self.refused and any(trial.result is TrialResult.SAME for trial in self.trials)

    def __str__(self) -> str:
        if self.changed:
            end = f"CHANGED after {', '.join(trial.scenario for trial in self.changed)}"
        elif self.refused:
            end = "NOT proved, since twice run refuses its plan"
        else:
            end = "proved" if self.holds else "nothing could be shown"
        return f"{self.task}[{self.label}]: {end}, {counted(len(self.trials), 'scenario')}, {self.seconds:.1f} s"

    def as_table(self) -> Table:
        head = ("scenario", "table", "seconds", "what was done")
        return head, [(each.scenario, each.result.value, f"{each.seconds:.1f}", each.reason) for each in self.trials]


@dataclass(frozen=True)
class ProofRecord:
    """What the ledger keeps of a proof. `changed`: the scenarios after which the table was another; `refused`: what
    `twice run` refuses."""

    task: str
    label: str
    code_hash: str
    at: datetime
    holds: bool
    changed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def document(proofs: Sequence[Proof]) -> dict[str, Any]:
    """`proof.json`: plain data, but for times."""
    return {"schema_version": SCHEMA_VERSION, "proofs": [_proof(proof) for proof in proofs]}


def _proof(proof: Proof) -> dict[str, Any]:
    trials = [_trial(trial) for trial in proof.trials]
    return {**asdict(proof), "at": proof.at.isoformat(), "holds": proof.holds, "trials": trials}


def _trial(trial: Trial) -> dict[str, Any]:
    body = asdict(trial)
    body["verdict"] = body.pop("result").value
    if trial.difference is not None:
        body["difference"]["rows"] = trial.difference.rows
    return body
