"""Claiming slices and keeping the claim. Leases save work; correctness rests on the target alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType

from twice.core.failure.stopping import pause
from twice.core.hints import hint, option
from twice.core.ledger.record import Busy, Claim, ClaimRequest
from twice.core.ports import Clock
from twice.core.results.run import RunRequest
from twice.core.results.summary import run_label
from twice.core.task import Task
from twice.core.write import WritePlan
from twice.errors import LeaseLost, SliceBusy
from twice.runtime.context import RunContext
from twice.runtime.holder import is_gone
from twice.runtime.run.quarantine import refuse_quarantined

POLL = 0.2


def claim_slices(context: RunContext, task: Task, plan: WritePlan, request: RunRequest, attempt: str) -> Claim:
    """Claim every slice or none. A retry after a kill need not wait: a holder that is seen to be gone is passed.

    Dying right after leaves a lease that runs out by itself, or is passed in the same way.
    """
    labels = tuple(slice_.label for slice_ in plan.slices)
    deadline = context.clock.monotonic() + (request.wait.total_seconds() if request.wait else 0.0)
    waiting_for = ""
    while True:
        if request.kind == "run":  # to restate is a person's decision
            refuse_quarantined(context, task, labels)
        wanted = ClaimRequest(task.name, labels, attempt, request.kind, context.holder)
        found = context.ledger.claim(wanted, context.lease)
        if isinstance(found, Claim):
            return found
        if is_gone(found.holder):
            context.ledger.release(found.attempt)
            continue
        if context.clock.monotonic() >= deadline:
            raise _busy(task, found, waited=request.wait is not None)
        if waiting_for != found.attempt:
            waiting_for = found.attempt
            context.progress.begins("waiting", run_label(task.name, labels), _describe(found))
        pause(POLL)


def _busy(task: Task, busy: Busy, waited: bool) -> SliceBusy:
    return SliceBusy(
        _describe(busy, " still" if waited else ""),
        where=run_label(task.name, [busy.label]),
        now="This command left the slice to it.",
        fix=hint("Wait for it with {}, or run again later: it will look first.", option("wait")),
    )


def _describe(busy: Busy, still: str = "") -> str:
    return (
        f"another attempt ({busy.attempt[:8]}, {busy.holder}) is running this slice{still}; "
        f"its lease runs until {_clock_time(busy.until)}"
    )


def _clock_time(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S UTC")


def beating(context: RunContext, claim: Claim) -> Heartbeat:
    return Heartbeat(lambda: context.ledger.renew(claim, context.lease), context.lease, context.clock)


class Heartbeat:
    """Renews a lease in the background while its holder works. `renew` says whether it is still ours.

    The holder trusts only its own monotonic clock: past two thirds of the lease without a renewal it must
    assume that somebody else has begun.
    """

    def __init__(self, renew: Callable[[], bool], lease: timedelta, clock: Clock) -> None:
        self._ask = renew
        self._lease = lease.total_seconds()
        self._clock = clock
        self._renewed = clock.monotonic()
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="twice-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def check(self, where: str) -> None:
        """Stop before the publish if the lease may be gone. Nothing is published yet."""
        if not self._lost and self._clock.monotonic() - self._renewed <= self._lease * 2 / 3:
            return
        if not self._lost and self._renew():
            return
        raise LeaseLost(
            "this attempt stopped reporting, and another one has taken the slice over",
            where=where,
            fix="Run it again: it will look first at what the other one published.",
        )

    def _beat(self) -> None:
        while not self._stop.wait(self._lease / 3):
            try:
                self._lost = self._lost or not self._renew()
            except Exception:  # noqa: BLE001 - a ledger out of reach is judged by `check`, at publish
                continue

    def _renew(self) -> bool:
        asked = self._clock.monotonic()
        if not self._ask():
            return False
        self._renewed = asked
        return True
