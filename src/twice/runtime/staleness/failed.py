"""Which slices need another try? By what the ledger remembers of their last attempt."""

from __future__ import annotations

from twice.core.ports import RunLedger
from twice.runtime.table.settle import lease_ran_out


def failed_labels(ledger: RunLedger, task: str) -> tuple[str, ...]:
    """Quarantined, failed, rejected by an audit, or left behind by a process that died. In order."""
    dead = {attempt.id for attempt in ledger.open_attempts(task) if lease_ran_out(ledger, attempt)}
    return tuple(run.label for run in ledger.runs(task) if run.failed or run.last_attempt in dead)
