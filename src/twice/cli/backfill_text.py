"""What the commands about backfills print: a plan, a backfill as it is now, how it ended; as text and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from twice.cli.hints import runnable
from twice.cli.terminal import Symbol, on_terminal, say, say_table
from twice.core.backfill.result import BackfillRecord, BackfillResult, BackfillState, BatchState, SliceReport
from twice.core.results.summary import counted, counted_of


def print_plan(plan: BackfillResult, *, stored: bool) -> None:
    say(f"backfill {plan.name}: {counted(len(plan.slices), 'slice')}" + ("" if stored else " (nothing is stored)"))
    for key, group in groupby(plan.slices, lambda slice_: (slice_.task, slice_.status, slice_.why)):
        say(f"  {_range(list(group))}  {key[1]}: {key[2]}")
    left = ", ".join(f"{count} {status}" for status, count in plan.left_out.items())
    if left:
        say(f"  left out: {left}")
    if plan.request.restate:
        say(f"  {counted(plan.restated, 'published slice')} will be computed again")
    for note in plan.notes:
        say(f"  note: {runnable(note)}")


def print_whole(result: BackfillResult, holders: Sequence[str]) -> None:
    """Every slice, why it is in it and what became of it."""
    idle = result.state is BackfillState.RUNNING and not holders
    state = "no worker is running it" if idle else result.state.value
    say(f"backfill {result.name}: {state}" + (f", workers: {', '.join(holders)}" if holders else ""))
    for note in result.notes:
        say(f"  note: {runnable(note)}")
    for slice_ in result.slices:
        say(f"  {_line(slice_)}")
    print_end(result)


def print_records(found: Sequence[tuple[BackfillRecord, int]]) -> None:
    """Each with how many workers have a batch of it now. A name is never cut: it is what the next command takes."""
    if not on_terminal():
        for record, holders in found:
            say(record_line(record, holders))
        return
    say_table(("backfill", "state", "slices"), [_record_cells(*each) for each in found], cuts=())
    for record, holders in found:
        if _is_idle(record, holders):
            say(_resume(record.name))


def _record_cells(record: BackfillRecord, holders: int) -> tuple[str, str, str]:
    failed = f", {record.failed} failed" if record.failed else ""
    state = "no worker" if _is_idle(record, holders) else record.state.value
    return record.name, state, f"{record.done}/{record.total}{failed}"


def _is_idle(record: BackfillRecord, holders: int) -> bool:
    return record.state is BackfillState.RUNNING and not holders


def record_line(record: BackfillRecord, holders: int) -> str:
    """`holders`: how many workers have a batch of it now."""
    failed = f", {record.failed} failed" if record.failed else ""
    slices = f"{record.done}/{counted(record.total, 'slice')}{failed}"
    if not _is_idle(record, holders):
        return f"{record.name}  {record.state.value}  {slices}"
    return f"{record.name}  {slices}, no worker is running it; {_resume(record.name)}"


def resumed_line(record: BackfillRecord) -> str:
    return f"backfill {record.name}: resumed, {counted_of(record.done, record.total, 'slice')} done"


def print_end(result: BackfillResult) -> None:
    done = f"{counted_of(len(result.done), len(result.slices), 'slice')} done{_failed(result)}{_stopped(result)}"
    person = on_terminal()
    if not person:
        say(done)
    compared = [slice_ for slice_ in result.slices if slice_.comparison is not None]
    changed = [slice_ for slice_ in compared if slice_.comparison is not None and not slice_.comparison.identical]
    if compared:
        say(f"restated: {len(compared) - len(changed)} IDENTICAL, {len(changed)} CHANGED")
    for slice_ in changed:
        say(f"  {slice_.task}[{slice_.label}] {slice_.comparison}")
    for slice_ in result.failed:
        error = (slice_.error or {}).get("what", "")
        say(f"  {slice_.state.value}: {slice_.task}[{slice_.label}] {error}", colour="red")
    if result.complete:
        then = runnable(f"next: twice status {result.request.task}") if person else ""
    else:
        retries = "retries only what failed" if _only_failures(result) else "continues with what is left"
        then = f"{_resume(result.name)}   ({retries})"
    if person:  # what is true, and what to do, in the last line
        say(f"{done}; {then}", Symbol.FAILED if result.failed else Symbol.DONE if result.complete else Symbol.WAITING)
    elif then:
        say(then)


def result_data(result: BackfillResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "state": result.state.value,
        "request": result.request.to_data(),
        "done": len(result.done),
        "failed": len(result.failed),
        "notes": list(result.notes),
        "slices": [_slice_data(slice_) for slice_ in result.slices],
    }


def _slice_data(slice_: SliceReport) -> dict[str, Any]:
    """The status has the key `standing`: the programs that read the JSON know it by that."""
    data = {("standing" if name == "status" else name): value for name, value in asdict(slice_).items()}
    return {**data, "state": slice_.state.value}


def record_data(record: BackfillRecord, holders: int) -> dict[str, Any]:
    return {
        "name": record.name,
        "state": record.state.value,
        "request": record.request.to_data(),
        "created": record.created,
        "total": record.total,
        "done": record.done,
        "failed": record.failed,
        "open": record.open,
        "rows": record.rows,
        "holders": holders,
    }


def _resume(name: str) -> str:
    return runnable(f"next: twice backfill resume {name}")


def _range(slices: Sequence[SliceReport]) -> str:
    first, last = slices[0], slices[-1]
    if len(slices) == 1:
        return f"{first.task}[{first.label}]"
    return f"{first.task}[{first.label}..{last.label}]  {counted(len(slices), 'slice')}"


def _failed(result: BackfillResult) -> str:
    return f", {len(result.failed)} failed" if result.failed else ""


def _stopped(result: BackfillResult) -> str:
    stopped = result.state in (BackfillState.PAUSED, BackfillState.CANCELLED)
    return f"; it was {result.state.value}" if stopped else ""


def _only_failures(result: BackfillResult) -> bool:
    return result.state is BackfillState.FINISHED and bool(result.failed)


def _line(slice_: SliceReport) -> str:
    parts = [f"{slice_.task}[{slice_.label}]", f"{slice_.status}: {slice_.why}", f"-> {slice_.state.value}"]
    if slice_.state is BatchState.DONE:
        rows = f", {counted(slice_.rows, 'row')}" if slice_.rows is not None else ""
        parts.append(f"({slice_.outcome}{rows})")
    return "  ".join(parts)
