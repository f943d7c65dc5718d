"""What status prints: the tasks at a glance, the slices of one, those that are not right, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from twice.cli.hints import runnable
from twice.cli.history_text import moment
from twice.cli.next_step import conclusion, retry_failed, stale_line
from twice.cli.terminal import Symbol, on_terminal, say, say_table
from twice.core.table.mark import version_cell

if TYPE_CHECKING:
    from twice.core.ledger.record import RunRecord
    from twice.core.results.proof import ProofRecord
    from twice.core.results.status import Status, TaskStatus

_MARKS = {"failed": Symbol.FAILED, "stale": Symbol.NOTICE, "missing": Symbol.WAITING}
WRONG = tuple(_MARKS)
"""The states in which a slice is not right, what is most urgent first."""


def _print_nothing() -> None:
    say(runnable("nothing has run yet\nnext: twice run TASK --date DATE"))


def print_tasks(found: Status) -> None:
    """Each task in a line, what is not right of it, and what to do."""
    if not found.runs and not any(task.proof for task in found.tasks):
        _print_nothing()
    else:
        say_table(
            ("task", "scope", "newest", "slices"),
            [
                (task.task, task.scope or "not declared", task.newest or "-", ", ".join((*task.counts, *task.remarks)))
                for task in found.tasks
            ],
            marks=[_mark_of(task) for task in found.tasks],
        )
        _print_stale(found)
    _print_notes(found)
    if found.runs:
        _print_conclusion(found)


class WrongSlice(NamedTuple):
    """`way_out`: what a person can do where no run computes it again."""

    task: str
    label: str
    status: str
    why: str
    way_out: str | None


def wrong_slices(found: Status, chosen: Collection[str]) -> Iterator[WrongSlice]:
    """The slices in these states, the failed ones first; of each state task by task."""
    for status in (each for each in WRONG if each in chosen):
        for task in found.tasks:
            slices: Mapping[str, str] = {"failed": task.failed, "stale": task.stale, "missing": task.missing}[status]
            for label, why in slices.items():
                way_out = found.kept.get((task.task, label)) if status == "stale" else None
                yield WrongSlice(task.task, label, status, why, way_out)


def print_wrong_slices(found: Status, chosen: Sequence[str], limit: int) -> None:
    listed = list(wrong_slices(found, chosen))
    if not listed:
        say(f"no slice is {' or '.join(chosen)}", Symbol.DONE)
    elif on_terminal():  # a name in a reason may need a whole line
        for each in listed[:limit]:
            say(f"{each.task}[{each.label}]: {each.status}, {each.why}", _MARKS[each.status])
        _print_more(len(listed) - limit)
    else:
        rows = [(f"{each.task}[{each.label}]", each.status, each.why) for each in listed[:limit]]
        say_table(("slice", "state", "why"), rows)
        _print_more(len(listed) - limit)
        for each in listed[:limit]:
            if each.way_out is not None:
                say(f"{each.task}[{each.label}]: no run computes it again; next: {runnable(each.way_out)}")
    _print_notes(found)
    _print_conclusion(found)


def print_slices(found: Status) -> None:
    """The slices of one task, and what to do."""
    if not found.runs:
        _print_nothing()
    else:
        _print_runs(found)
    for proof, current in found.proofs:
        say(_proved(proof, current), Symbol.DONE if proof.holds and current else Symbol.NOTICE)
    _print_notes(found)
    if found.runs and on_terminal():
        _print_conclusion(found)


def _print_runs(found: Status) -> None:
    """On a terminal without the task, which is the same in all: there is room for what matters."""
    named = on_terminal()
    say_table(
        ("slice", "published", "generation", "rows", "last attempt"),
        [
            (
                run.label if named else f"{run.task}[{run.label}]",
                moment(run.published) if run.generation else "-",
                found.marks.get((run.task, run.label)) or str(version_cell(run.generation) or "-"),
                "-" if run.rows is None else f"{run.rows:,}",
                _last(run) + _remarks(found, (run.task, run.label)),
            )
            for run in found.runs
        ],
        marks=[_mark_of_run(found, run) for run in found.runs],
    )
    _print_more(found.total - len(found.runs))
    _print_stale(found)
    if found.silent:
        say(
            runnable(
                "next: twice recover (what stopped reporting is not running any more; it asks the tables what landed)"
            )
        )
    if found.last_failed:
        say(f"next: {retry_failed(found.last_failed)}")


def _print_more(more: int) -> None:
    if more > 0:
        say(f"({more:,} more; --limit shows them)")


def _print_stale(found: Status) -> None:
    for name in dict.fromkeys(task for task, _ in found.stale):
        whys = {label: why for (task, label), why in found.stale.items() if task == name}
        kept = {label: found.kept[name, label] for label in whys if (name, label) in found.kept}
        say(stale_line(name, whys, kept), Symbol.NOTICE)


def _print_notes(found: Status) -> None:
    print_not_looked_at(found.not_looked_at)
    if found.tables_to_ask:
        say(
            f"not shown: old records of {', '.join(found.tables_to_ask)}, from before the ledger kept environments "
            "apart; it is not known yet which environment they belong to"
        )
        say(runnable("next: twice ledger check (it asks the tables which records are theirs)"))
    if found.waiting:
        waiting = ", ".join(f"{count} {state.value}" for state, count in found.waiting.items())
        say(f"effects wait for a person: {waiting}", Symbol.NOTICE)
        say(runnable("next: twice effects list"))


def print_not_looked_at(tasks: Mapping[str, str]) -> None:
    for task, why in tasks.items():
        say(f"{task} could not be looked at: {why}; what is known of it is older", Symbol.FAILED)


def _print_conclusion(found: Status) -> None:
    mark, truth, then = conclusion(found)
    say(truth + (f"; next: {then}" if then else ""), mark)


def _mark_of(task: TaskStatus) -> Symbol:
    if task.failed or task.silent:
        return Symbol.FAILED
    if task.stale:
        return Symbol.NOTICE
    return Symbol.DONE if task.right else Symbol.WAITING


def _mark_of_run(found: Status, run: RunRecord) -> Symbol:
    if run.failed or (run.task, run.label) in found.silent:
        return Symbol.FAILED
    if (run.task, run.label) in found.stale:
        return Symbol.NOTICE
    return Symbol.DONE if run.generation else Symbol.WAITING


def _remarks(found: Status, where: tuple[str, str]) -> str:
    return (", stopped reporting" if where in found.silent else "") + (", stale" if where in found.stale else "")


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
