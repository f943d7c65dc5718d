"""status and history: what the ledger remembers, as lines, tables and a calendar. No Spark is started for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.hints import runnable
from twice.cli.options import HERE, Date, Format, Output, TaskName, Where, boundary, print_json
from twice.core.ledger.record import REWRITTEN, TABLE
from twice.core.results.calendar import Cell, Page
from twice.core.results.summary import counted
from twice.core.slice import WHOLE
from twice.core.table.mark import version_cell, version_text
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.core.ledger.record import AttemptRecord, RunRecord
    from twice.core.results.proof import ProofRecord
    from twice.core.results.status import Status


SomeLimit = Annotated[int | None, typer.Option("--limit", help="How many at most: 50, or all as JSON.", min=1)]
Limit = Annotated[int, typer.Option("--limit", help="How many at most.", min=1)]
_SHOWN = 50


@boundary
def status(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Only this task.")] = None,
    limit: SomeLimit = None,
    calendar: Annotated[bool, typer.Option("--calendar", help="Draw the task's slices by month (or day).")] = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show what is published, what failed, what is stale.

    Every slice, as far as the ledger knows. Exit 1 if the last attempt at one failed, or an effect waits for a person.
    """
    from twice.project import inspect

    if calendar:
        return _calendar(task, output, where)
    # A program is given everything, a person the last ones.
    wanted = limit or (None if output is Format.json else _SHOWN)
    with where.open() as opened:
        found = inspect.status(opened, task, wanted)
    if output is Format.json:
        print_json(_status_data(found))
    else:
        _print_status(found)
    return 1 if found.needs_attention else 0


def _calendar(task: str | None, output: Format, where: Where) -> int:
    from twice.cli.records import print_calendar
    from twice.project import inspect

    if task is None:
        raise UsageError("a calendar shows one task", fix="Name it: twice status TASK --calendar.")
    with where.open() as opened:
        pages = inspect.calendar(opened, task)
    if output is Format.json:
        print_json({"calendar": [asdict(page) for page in pages]})
    elif not pages:
        print(f"nothing of {task} has run yet")
        print(runnable(f"next: twice backfill {task} --from DATE --to DATE --dry-run"))
    else:
        print_calendar(pages)
    return 1 if any(cell in ("failed", "quarantined") for page in pages for cell in page.cells) else 0


@boundary
def history(
    task: TaskName,
    date: Date = None,
    limit: Limit = 20,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show every attempt, and why.

    Rows, fingerprint, version, audits, why it was (not) computed, and where the time went.
    """
    from twice.project import inspect

    with where.open() as opened:
        attempts = inspect.history(opened, task, date, limit)
    if output is Format.json:
        print_json({"attempts": [_attempt_data(attempt) for attempt in attempts]})
    elif not attempts:
        print(f"{task}: no attempt yet")
        print(runnable(f"next: twice run {task} --date {date or 'DATE'}"))
    else:
        for attempt in attempts:
            _print_attempt(attempt)
    return 0


def _status_data(found: Status) -> dict[str, Any]:
    return {
        "runs": [
            {
                **_run_data(run),
                "stale": found.stale.get((run.task, run.label)),
                "way_out": found.kept.get((run.task, run.label)),
                "silent": (run.task, run.label) in found.silent,
            }
            for run in found.runs
        ],
        "total": found.total,
        "failed": found.failed,
        "stale": len(found.stale),
        "effects": {state.value: count for state, count in found.effects.items()},
        "proofs": [{**asdict(proof), "current": current} for proof, current in found.proofs],
    }


def _print_status(found: Status) -> None:
    if not found.runs:
        print(runnable("nothing has run yet\nnext: twice run TASK --date DATE"))
    else:
        _print_runs(found)
    for proof, current in found.proofs:
        print(_proved(proof, current))
    if found.tables_to_ask:
        print(
            f"not shown: old records of {', '.join(found.tables_to_ask)}, from before the ledger kept environments "
            "apart; it is not known yet which environment they belong to"
        )
        print(runnable("next: twice ledger check (it asks the tables which records are theirs)"))
    if found.waiting:
        waiting = ", ".join(f"{count} {state.value}" for state, count in found.waiting.items())
        print(f"effects wait for a person: {waiting}")
        print(runnable("next: twice effects list"))


def _print_runs(found: Status) -> None:
    print_table(
        ("slice", "published", "generation", "rows", "last attempt"),
        [
            (
                f"{run.task}[{run.label}]",
                moment(run.published) if run.generation else "-",
                found.marks.get((run.task, run.label)) or str(version_cell(run.generation) or "-"),
                "-" if run.rows is None else f"{run.rows:,}",
                _last(run) + _remarks(found, (run.task, run.label)),
            )
            for run in found.runs
        ],
    )
    if len(found.runs) < found.total:
        print(f"({found.total - len(found.runs):,} more; --limit shows them)")
    for name in dict.fromkeys(task for task, _ in found.stale):
        whys = {label: why for (task, label), why in found.stale.items() if task == name}
        print(stale_line(name, whys, {label: found.kept[name, label] for label in whys if (name, label) in found.kept}))
    if found.silent:
        print(
            runnable(
                "next: twice recover (what stopped reporting is not running any more; it asks the tables what landed)"
            )
        )
    if found.last_failed:
        last = found.last_failed
        print(runnable(f"next: twice history {last.task} --date {last.label}, then twice retry --failed"))


def _remarks(found: Status, where: tuple[str, str]) -> str:
    return (", stopped reporting" if where in found.silent else "") + (", stale" if where in found.stale else "")


def stale_line(task: str, whys: Mapping[str, str], kept: Mapping[str, str] | None = None) -> str:
    first, *others = whys
    which = f"{task}[{first}]" if not others else f"{counted(len(whys), 'slice')} of {task}, the first {first},"
    return f"stale: {which} because {whys[first]}; next: {make_right(task, tuple(whys), (kept or {}).get(first))}"


def make_right(task: str, labels: Sequence[str], way_out: str | None = None) -> str:
    """The command that computes these stale slices again, and what reads them; or what a person can do instead."""
    if way_out is not None:
        return runnable(way_out)
    if labels[0] == WHOLE.label:
        return runnable(f"twice run {task}")
    days = f"--from {labels[0]} --to {labels[-1]}"
    return runnable(f"twice backfill {task} {days} --only stale --with-downstream")


def _print_attempt(attempt: AttemptRecord) -> None:
    labels = ", ".join(slice_.label for slice_ in attempt.slices)
    where = f"[{labels}]" if labels else ""  # a takeover is of the whole table
    print(f"{attempt.task}{where}  attempt {attempt.id[:8]}  {attempt.kind}: {attempt.state.value}")
    print(f"  {moment(attempt.started)} to {moment(attempt.finished)} by {attempt.holder}, fence {attempt.fence}")
    for slice_ in attempt.slices:
        if slice_.rows is not None:
            generation = "" if slice_.aim is None else f" for {version_text(slice_.aim)}"
            print(f"  {slice_.label}: {counted(slice_.rows, 'row')}, fingerprint {slice_.fingerprint}{generation}")
    for leaf in dict.fromkeys((i.kind, i.name, i.version) for i in attempt.inputs if i.kind not in (TABLE, REWRITTEN)):
        print(f"  read {leaf[0]} {leaf[1]}" + ("" if leaf[2] is None else f" at version {leaf[2]}"))
    if attempt.version is not None:
        print(f"  table version {attempt.version}")
    for line in _reasons(attempt):
        print(f"  {line}")
    if attempt.seconds:
        print("  seconds: " + ", ".join(f"{step} {took:.2f}" for step, took in attempt.seconds.items()))


def _reasons(attempt: AttemptRecord) -> list[str]:
    lines = [f"why: {attempt.why}"] if attempt.why else []
    lines += [f"audit {a.name}: {'passed' if a.passed else a.severity}, {a.message}" for a in attempt.audits]
    lines += [f"rows: {attempt.changes}"] if attempt.changes else []
    lines += [f"note: {runnable(note)}" for note in attempt.notes]
    if attempt.error:
        lines.append(f"error[{attempt.error.get('code')}]: {attempt.error.get('what')}")
    return lines


def _proved(proof: ProofRecord, current: bool) -> str:
    code = "at this code version" if current else "at another code version"
    if proof.holds:
        return f"{proof.task}: proved {code} ({proof.label}, {moment(proof.at)})"
    why = "twice run refuses its plan" if proof.refused else "nothing could be shown"
    why = f"CHANGED after {', '.join(proof.changed)}" if proof.changed else why
    return f"{proof.task}: NOT proved {code}: {why} ({proof.label}, {moment(proof.at)})"


def _last(run: RunRecord) -> str:
    if run.quarantined:
        return "quarantined"
    if run.failed and run.retry_at:
        return f"{run.last_state.value if run.last_state else ''}, retry due {run.retry_at:%H:%M:%S}"
    return run.last_state.value if run.last_state else "-"


def print_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def moment(moment: Any) -> str:
    return "-" if moment is None else str(moment.strftime("%Y-%m-%d %H:%M:%S"))


def _run_data(run: RunRecord) -> dict[str, Any]:
    return {**asdict(run), "last_state": run.last_state.value if run.last_state else None}


def _attempt_data(attempt: AttemptRecord) -> dict[str, Any]:
    return {**asdict(attempt), "state": attempt.state.value}


# state: shape, shape where the terminal knows no other letters, colour
_LOOKS: dict[Cell, tuple[str, str, str | None]] = {
    "published": ("■", "#", "green"),
    "stale": ("□", "s", "yellow"),
    "failed": ("✗", "x", "red"),
    "quarantined": ("!", "!", "magenta"),
    "at work": ("◌", "~", "yellow"),
    "missing": ("·", ".", None),
    "none": (" ", " ", None),
}


def print_calendar(pages: Sequence[Page]) -> None:
    letters = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    colours = sys.stdout.isatty()
    width = max(len(page.title) for page in pages)
    for page in pages:
        cells = "".join(_drawn(cell, letters, colours) for cell in page.cells)
        print(f"{page.title.ljust(width)}  {cells}".rstrip())
    used = {cell for page in pages for cell in page.cells}
    legend = [f"{_drawn(cell, letters, colours)} {cell}" for cell in _LOOKS if cell in used and cell != "none"]
    print("  ".join(legend))


def _drawn(cell: Cell, letters: bool, colours: bool) -> str:
    shape, plain, colour = _LOOKS[cell]
    drawn = shape if letters else plain
    return typer.style(drawn, fg=colour) if colours and colour else drawn
