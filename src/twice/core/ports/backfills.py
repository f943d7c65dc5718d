"""Backfills in the ledger: frozen plans, and which worker has which batch of them.

Every store passes tests/contracts/test_backfills.py. Claims only save work: two workers on one batch are kept apart by
the leases of its slices and, in the end, by the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from twice.core.backfill.plan import BackfillPlan, BackfillRequest
from twice.core.backfill.result import (
    BackfillRecord,
    BackfillState,
    BatchClaim,
    BatchRecord,
    BatchState,
    Hold,
    SliceEnd,
)


class BackfillStore(Protocol):
    def create(self, plan: BackfillPlan) -> bool:
        """Store a plan; False, and nothing written, if there is one of that name. Dying here stores all or nothing."""

    def record(self, name: str) -> BackfillRecord | None: ...

    def records(self, request: BackfillRequest | None = None) -> tuple[BackfillRecord, ...]:
        """Oldest first: all, or those that were asked for so."""

    def batches(self, name: str, state: BatchState | None = None) -> tuple[BatchRecord, ...]:
        """In the order they are taken: all, or those in a state."""

    def move(self, name: str, before: Sequence[BackfillState], after: BackfillState) -> bool:
        """Pause, resume or cancel; False if it is in another state. A second call changes nothing."""

    def finish(self, name: str) -> bool:
        """Running becomes finished once nothing is open; False otherwise."""

    def finish_done(self) -> int:
        """The same for every backfill, also of tables that tasks wrote before: a worker that was killed after its last
        batch could not record that. How many; a second call finds none."""

    def again(self, name: str) -> int:
        """Everything that failed, or waited for it, becomes pending once more, and the backfill runs; how many
        batches. A second call finds none."""

    def claim(self, name: str, holder: str, lease: timedelta) -> BatchClaim | None:
        """The first batch that is free (or whose worker stopped reporting) and needs nothing more; None if there
        is none now. The newest fence is kept at a batch's first claim and stays. Dying after it leaves a claim that
        runs out by itself, and so does a reply that was lost."""

    def renew(self, claim: BatchClaim, lease: timedelta) -> bool:
        """Hold on for another `lease`. False: another worker has the batch."""

    def release(self, claim: BatchClaim) -> bool:
        """Put a batch back that was not done. False: another worker has it."""

    def held(self, name: str) -> tuple[Hold, ...]:
        """The batches that workers have now. Asked every second, so of ten thousand slices none is read."""

    def free(self, name: str, number: int, tries: int) -> bool:
        """A worker is known to be gone: its batch is free again. False if another worker has it by now."""

    def done(self, claim: BatchClaim, ends: Sequence[SliceEnd], seconds: float) -> bool:
        """Dying before it leaves the claim to run out; the next worker finds the slices published."""

    def failed(self, claim: BatchClaim, error: Mapping[str, str], seconds: float) -> bool:
        """The batch failed for good (until `again`), and what needs it is skipped."""

    def split(self, claim: BatchClaim) -> bool:
        """A failed batch becomes two pending ones in its place. Dying here has split it or not."""
