"""Backfills of an open project. What only reads or writes the ledger starts no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.core.backfill import BackfillPlan, Request
from twice.core.backfill_result import BackfillRecord, BackfillResult, BackfillState, report

if TYPE_CHECKING:
    from twice.runtime.backfill.worker import Report, Stop
    from twice.wiring import OpenProject


class ProjectBackfills:
    def __init__(self, opened: OpenProject) -> None:
        self._opened = opened

    def plan(self, request: Request, name: str | None) -> BackfillPlan:
        from twice.runtime.backfill.backfill import plan_backfill

        self._check(request)
        return plan_backfill(self._opened.context, request, name)

    def start(self, request: Request, name: str | None) -> tuple[BackfillRecord, BackfillPlan | None]:
        """The plan is given only where it is new: a second start resumes."""
        from twice.runtime.backfill.backfill import start

        self._check(request)
        return start(self._opened.context, request, name)

    def ready(self) -> None:
        """Start what work needs. A session that starts takes Ctrl-C for itself: who wants to hear it comes after."""
        assert self._opened.context is not None

    def work(self, name: str, tell: Report, stop: Stop, parallel: int) -> BackfillRecord:
        from twice.runtime.backfill.worker import work

        return work(self._opened.context, name, tell, stop, parallel)

    def running(self) -> tuple[BackfillRecord, ...]:
        """Those a worker may find something to do in."""
        return tuple(record for record in self.all() if record.state is BackfillState.RUNNING and record.open)

    def all(self) -> tuple[BackfillRecord, ...]:
        return self._opened.ledger.backfills.records()

    def record(self, name: str) -> BackfillRecord:
        from twice.runtime.backfill.backfill import find

        return find(self._opened.ledger, name)

    def show(self, name: str) -> BackfillResult:
        return report(self.record(name), self._opened.ledger.backfills.batches(name))

    def holders(self, name: str) -> tuple[str, ...]:
        """The workers that have a batch of it now."""
        return tuple(sorted({hold.holder for hold in self._opened.ledger.backfills.held(name)}))

    def progress(self, name: str) -> tuple[BackfillRecord, int]:
        """As it is now, and how many workers have a batch of it."""
        return self.record(name), len(self.holders(name))

    def pause(self, name: str) -> BackfillRecord:
        from twice.runtime.backfill.backfill import pause

        return pause(self._opened.ledger, name)

    def resume(self, name: str) -> BackfillRecord:
        from twice.runtime.backfill.backfill import resume

        return resume(self._opened.ledger, name)

    def cancel(self, name: str) -> BackfillRecord:
        from twice.runtime.backfill.backfill import cancel

        return cancel(self._opened.ledger, name)

    def _check(self, request: Request) -> None:
        """Before a session is started for nothing."""
        from twice.runtime.backfill.backfill import asked_for

        asked_for(self._opened.project.task(request.task), request)
