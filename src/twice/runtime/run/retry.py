"""Trying a run again: always as a whole attempt (a new claim, a new fence, a look first), never as a blind commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from twice.core.retry import Failure, Retry, gives_up, judged, pause_after
from twice.core.run import RunResult
from twice.core.slice import WHOLE
from twice.core.task import Task
from twice.core.transience import Nature
from twice.engine.causes import signs
from twice.errors import Quarantined, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.run.attempt import place


def retrying(context: RunContext, task: Task, labels: Sequence[str], once: Callable[[str], RunResult]) -> RunResult:
    """Call `once` with a new attempt's id until it ends well, fails for good, or the retries are used up.

    Between two attempts nothing is held, so dying in a wait loses nothing: the next run begins at once, and looks.
    """
    retry, number, attempt = task.policy.retry, 0, ""
    failed: float | None = None
    while True:
        number, before, attempt = number + 1, attempt, uuid.uuid4().hex
        try:
            if before:
                # An attempt that could not report its end (its ledger was away) would keep us out until its lease ends.
                context.ledger.release(before)
            return once(attempt)
        except TwiceError as error:
            now = context.clock.monotonic()
            failed = now if failed is None else failed
            elapsed = timedelta(seconds=now - failed)
            failure = Failure(number, elapsed, judged(retry, signs(error)))
            pause = pause_after(retry, failure, context.draw())
            if pause is None:
                if gives_up(retry, failure, pause) and _set_aside(context, attempt, retry, failure):
                    raise _last(task, labels, failure, error) from error
                _tell_tries(error, failure)
                raise
            _postpone(context, attempt, retry, failure, pause)
        context.pause(pause.total_seconds())


def refuse_quarantined(context: RunContext, task: Task, labels: Sequence[str]) -> None:
    """Nobody but a person takes up a slice that every retry has failed on by itself."""
    held = context.ledger.quarantined(task.name)
    for label in labels:
        if label in held:
            raise Quarantined(
                f"it is quarantined since {held[label]:%Y-%m-%d %H:%M:%S} UTC: every retry failed, and not for what "
                "was away",
                where=place(task.name, [label]),
                now="This command changed nothing.",
                fix=_what_to_do(task, label),
            )


def _postpone(context: RunContext, attempt: str, retry: Retry, failure: Failure, pause: timedelta) -> None:
    note = f"{_told(retry, failure)}; tried again after {pause.total_seconds():.1f} s"
    # The ledger may itself be the trouble. Then the wait is in no record, and that is all that is lost.
    with suppress(TwiceError):
        context.ledger.postpone(attempt, context.ledger.now() + pause, note)


def _set_aside(context: RunContext, attempt: str, retry: Retry, failure: Failure) -> bool:
    with suppress(TwiceError):
        return context.ledger.quarantine(attempt, f"{_told(retry, failure)}; quarantined")
    return False


def _told(retry: Retry, failure: Failure) -> str:
    return (
        f"attempt {failure.number} of {retry.attempts} failed, {failure.judgement.nature.value} "
        f"({failure.judgement.why})"
    )


def _tell_tries(error: TwiceError, failure: Failure) -> None:
    if failure.number > 1 and failure.judgement.nature is Nature.TRANSIENT:
        times = f"{failure.number} times in {failure.elapsed.total_seconds():.0f} s"
        error.fix = f"{error.fix} (It was tried {times}; the next run tries again.)".strip()


def _last(task: Task, labels: Sequence[str], failure: Failure, error: TwiceError) -> Quarantined:
    times = f"{failure.number} attempts" if failure.number > 1 else "1 attempt"
    return Quarantined(
        f"{times} within {failure.elapsed.total_seconds():.0f} s failed; the last: {error.what}",
        where=error.where,
        now=f"{error.now} The slice is quarantined.".strip(),
        fix=_what_to_do(task, labels[-1]),
    )


def _what_to_do(task: Task, label: str) -> str:
    date = "" if label == WHOLE.label else f" --date {label}"
    return f"See twice history {task.name}{date}; when the cause is gone: twice retry {task.name}{date}."
