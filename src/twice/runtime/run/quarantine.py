"""Slices that every retry failed on: a run refuses them, until a person says `twice retry`."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.hints import command, hint
from twice.core.results.summary import run_label
from twice.core.retry import Failure
from twice.core.slice import WHOLE
from twice.core.task import Task
from twice.errors import Quarantined, TwiceError
from twice.runtime.context import RunContext


def refuse_quarantined(context: RunContext, task: Task, labels: Sequence[str]) -> None:
    """Refuse a slice that failed on every retry: only a person may have it run again."""
    held = context.ledger.quarantined(task.name, labels)
    for label in labels:
        if label in held:
            raise Quarantined(
                f"the slice has been quarantined since {held[label]:%Y-%m-%d %H:%M:%S} UTC: every retry failed, and "
                "the cause was not an outage",
                where=run_label(task.name, [label]),
                now="It was not run, and its rows in the table are unchanged.",
                fix=_what_to_do(task, label),
            )


def quarantined_now(task: Task, labels: Sequence[str], failure: Failure, error: TwiceError) -> Quarantined:
    """The end of a run whose last retry failed with this error."""
    times = f"{failure.number} attempts" if failure.number > 1 else "1 attempt"
    return Quarantined(
        f"{times} within {failure.elapsed.total_seconds():.0f} s failed; the last: {error.what}",
        where=error.where,
        now=f"{error.now} The slice is quarantined.".strip(),
        fix=_what_to_do(task, labels[-1]),
    )


def _what_to_do(task: Task, label: str) -> str:
    date = None if label == WHOLE.label else label
    look, again = command("history", task.name, date=date), command("retry", task.name, date=date)
    return hint("See {}; when the cause is gone: {}.", look, again)
