"""What `recover` gives: what became of the attempts that did not report back. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.ledger.record import AttemptState
from twice.core.results.summary import SummarizedSequence, Table, counted, counted_each


@dataclass(frozen=True)
class Recovered:
    """What became of one attempt: `state` is what the ledger says of it now."""

    attempt: str
    task: str
    labels: tuple[str, ...]
    state: AttemptState

    @property
    def where(self) -> str:
        return f"{self.task}[{', '.join(self.labels)}]"


@dataclass(frozen=True, repr=False, eq=False)
class RecoverResult(SummarizedSequence[Recovered]):
    """The attempts that were settled: a sequence of them. Empty, and falsy, if there was none. `open`: so many are
    still at work, and were left alone. `unasked`: tables that could not be read, and why; what is open there stays
    open."""

    settled: tuple[Recovered, ...] = ()
    open: int = 0
    unasked: tuple[str, ...] = ()

    @property
    def _items(self) -> tuple[Recovered, ...]:
        return self.settled

    def __str__(self) -> str:
        left = f"; {self.open:,} still at work" if self.open else ""
        left += f"; could not be read: {', '.join(self.unasked)}" if self.unasked else ""
        if not self.settled:
            return f"nothing to settle{left}"
        states = counted_each(one.state.value for one in self.settled)
        where = ", ".join(dict.fromkeys(one.where for one in self.settled))
        return f"{counted(len(self.settled), 'attempt')} settled, {states}: {where}{left}"

    def as_table(self) -> Table:
        return ("slice", "attempt", "now"), [(one.where, one.attempt[:8], one.state.value) for one in self.settled]
