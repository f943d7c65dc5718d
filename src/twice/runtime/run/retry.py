"""The attempts of one run: whether a failed one is followed by another, and after which pause."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from twice.core.failure.transience import Nature
from twice.core.results.summary import run_label
from twice.core.retry import Failure, Retry, classify, gives_up, pause_after
from twice.core.task import Task
from twice.engine.causes import signs
from twice.errors import TwiceError, followed_by
from twice.runtime.context import RunContext
from twice.runtime.run.quarantine import quarantined_now


@dataclass
class AttemptCount:
    """Counts them, from the first failure on by the clock. `last` is the id of the newest one."""

    context: RunContext
    task: Task
    labels: tuple[str, ...]
    number: int = 0
    last: str = ""
    failed: float | None = None

    def begin(self) -> str:
        """The id of a new attempt. What the one before may still hold is free by then."""
        before, self.last = self.last, uuid.uuid4().hex
        self.number += 1
        if before:
            # An attempt that could not report its end (its ledger was away) would keep us out until its lease ends.
            self.context.ledger.release(before)
        return self.last

    def pause_after(self, error: TwiceError) -> timedelta:
        """How long to wait for the next attempt. Raises the error if there is none: it is permanent, or the retries are
        used up; Quarantined if only a person can help then."""
        now = self.context.clock.monotonic()
        self.failed = now if self.failed is None else self.failed
        retry = self.task.policy.retry
        failure = Failure(self.number, timedelta(seconds=now - self.failed), classify(retry, signs(error)))
        pause = pause_after(retry, failure, self.context.draw())
        if pause is None:
            if gives_up(retry, failure, pause) and _quarantine(self.context, self.last, retry, failure):
                raise quarantined_now(self.task, self.labels, failure, error) from error
            _add_tries(error, failure)
            raise error
        _postpone(self.context, self.last, retry, failure, pause)
        then = f"next attempt in {pause.total_seconds():.0f} s"
        where = run_label(self.task.name, self.labels)
        self.context.progress.begins(then, where, f"attempt {self.number} failed: {error.what}")
        return pause


def _postpone(context: RunContext, attempt: str, retry: Retry, failure: Failure, pause: timedelta) -> None:
    note = f"{_describe(retry, failure)}; tried again after {pause.total_seconds():.1f} s"
    # The ledger may itself be what failed. Then the wait is in no record, and that is all that is lost.
    with suppress(TwiceError):
        context.ledger.postpone(attempt, context.ledger.now() + pause, note)


def _quarantine(context: RunContext, attempt: str, retry: Retry, failure: Failure) -> bool:
    with suppress(TwiceError):
        return context.ledger.quarantine(attempt, f"{_describe(retry, failure)}; quarantined")
    return False


def _describe(retry: Retry, failure: Failure) -> str:
    return (
        f"attempt {failure.number} of {retry.attempts} failed, {failure.judgement.nature.value} "
        f"({failure.judgement.why})"
    )


def _add_tries(error: TwiceError, failure: Failure) -> None:
    if failure.number > 1 and failure.judgement.nature is Nature.TRANSIENT:
        times = f"{failure.number} times in {failure.elapsed.total_seconds():.0f} s"
        error.fix = followed_by(error.fix, f"(It was tried {times}; the next run tries again.)")
