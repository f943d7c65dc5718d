"""What history prints: every attempt, with what it learnt and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twice.cli.hints import runnable
from twice.cli.terminal import Symbol, on_terminal, say
from twice.core.ledger.record import NO_LEAVES, AttemptRecord, AttemptState
from twice.core.results.summary import counted
from twice.core.since import SINCE
from twice.core.slice import WHOLE
from twice.core.table.mark import version_text


def print_attempts(attempts: Sequence[AttemptRecord]) -> None:
    for attempt in attempts:
        _print_attempt(attempt)
    if on_terminal():
        _print_last_attempt(attempts)


def moment(moment: Any) -> str:
    return "-" if moment is None else str(moment.strftime("%Y-%m-%d %H:%M:%S"))


def _print_attempt(attempt: AttemptRecord) -> None:
    labels = ", ".join(slice_.label for slice_ in attempt.slices)
    where = f"[{labels}]" if labels else ""  # a takeover is of the whole table
    what = f"attempt {attempt.id[:8]}  {attempt.kind}: {attempt.state.value}"
    say(f"{attempt.task}{where}  {what}", _mark_of(attempt.state))
    say(
        f"  {moment(attempt.started)} to {moment(attempt.finished)} by {attempt.holder}, fence {attempt.fence}",
        colour="dim",
    )
    for slice_ in attempt.slices:
        if slice_.rows is not None:
            generation = "" if slice_.aim is None else f" for {version_text(slice_.aim)}"
            say(
                f"  {slice_.label}: {counted(slice_.rows, 'row')}, fingerprint {slice_.fingerprint}{generation}",
                colour="dim",
            )
    for leaf in dict.fromkeys((i.kind, i.name, i.version) for i in attempt.inputs if i.kind not in NO_LEAVES):
        say(f"  read {leaf[0]} {leaf[1]}" + ("" if leaf[2] is None else f" at version {leaf[2]}"), colour="dim")
    if attempt.version is not None:
        say(f"  table version {attempt.version}", colour="dim")
    for line in _reasons(attempt):
        say(f"  {line}", colour="red" if line.startswith("error[") else "dim")
    if attempt.seconds:
        say("  seconds: " + ", ".join(f"{step} {took:.2f}" for step, took in attempt.seconds.items()), colour="dim")


def _mark_of(state: AttemptState) -> Symbol:
    if state.open:
        return Symbol.WAITING
    if state.bad:
        return Symbol.FAILED
    return {AttemptState.PUBLISHED: Symbol.DONE, AttemptState.UNCHANGED: Symbol.SAME}.get(state, Symbol.NOTICE)


def _print_last_attempt(attempts: Sequence[AttemptRecord]) -> None:
    """On a terminal: how the newest one ended, and what to do."""
    last = attempts[0]
    dates = {slice_.label for slice_ in last.slices} - {WHOLE.label, SINCE.label}
    date = f" --date {last.slices[0].label}" if len(dates) == 1 else ""
    then = runnable(f"twice retry {last.task}{date}" if last.state.bad else f"twice status {last.task}")
    shown = f"{counted(len(attempts), 'attempt')}, newest first; the newest is {last.state.value}"
    say(f"{shown}; next: {then}", _mark_of(last.state))


def _reasons(attempt: AttemptRecord) -> list[str]:
    lines = [f"why: {attempt.why}"] if attempt.why else []
    lines += [f"audit {a.name}: {'passed' if a.passed else a.severity}, {a.message}" for a in attempt.audits]
    lines += [f"rows: {attempt.changes}"] if attempt.changes else []
    lines += [f"note: {runnable(note)}" for note in attempt.notes]
    if attempt.error:
        lines.append(f"error[{attempt.error.get('code')}]: {attempt.error.get('what')}")
    return lines
