"""What run, restate, retry and plan print: results as they come, and what a run would do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twice.cli.effects import effect_text
from twice.cli.hints import runnable
from twice.cli.options import Format, print_error, print_json, run_data
from twice.cli.records import make_right
from twice.core.closed import assert_never
from twice.core.failure.interruption import exit_code_of
from twice.core.results.run import Outcome, RunResult
from twice.core.results.summary import counted, counted_of
from twice.core.since import SINCE
from twice.core.slice import WHOLE
from twice.core.table.mark import version_text
from twice.errors import Interrupted, TwiceError

if TYPE_CHECKING:
    from twice.runtime.run.explain import Explanation
    from twice.runtime.run.run_many import Report, TaskEnd


def print_ends(run: Callable[[Report], tuple[TaskEnd, ...]], output: Format) -> int:
    """As text each task's end as it comes, then the sum; as JSON one document, also where an interrupt ends it."""
    known: list[TaskEnd] = []

    def report(end: TaskEnd) -> None:
        known.append(end)
        if output is Format.text:
            _print_end(end, any(each.waits_for for each in known if each.task == end.waits_for))

    try:
        ends = run(report)
    except KeyboardInterrupt as interrupt:
        if output is Format.text:
            raise
        error = interrupt.error if isinstance(interrupt, Interrupted) else None
        print_json({"tasks": [_end_data(end) for end in known], "error": error.details() if error else None})
        return exit_code_of(interrupt)
    failed = [end for end in ends if end.error or end.waits_for]
    if output is Format.json:
        print_json({"tasks": [_end_data(end) for end in ends]})
    elif not ends:
        print("nothing has failed")  # a chain has a task, what is tried again may have none
    else:
        _print_sum(ends, len(failed))
    return 1 if failed else 0


def _print_end(end: TaskEnd, not_run: bool) -> None:
    """`not_run`: what it waits for was itself not run."""
    for result in end.results:
        print_result(result)
    if end.error:
        print_error(end.error, as_json=False, debug=False)
    if end.waits_for:
        print(f"{end.task}: not run, because {end.waits_for} {'was not run' if not_run else 'did not succeed'}")
    if end.left_out:
        print(f"{end.task}: left out, because {end.left_out}")
    sys.stdout.flush()


def _print_sum(ends: tuple[TaskEnd, ...], failed: int) -> None:
    print(_summary(ends, failed))
    for end in ends:
        if end.stale:
            print(_left_stale(end))


def _summary(ends: tuple[TaskEnd, ...], failed: int) -> str:
    asked = len([end for end in ends if not end.left_out])
    parts = [f"{counted_of(asked - failed, asked, 'task')} done"]
    parts += ["the others can be run again"] if failed else []
    parts += [f"{len(ends) - asked} left out"] if asked < len(ends) else []
    stale = sum(len(end.stale) for end in ends)
    parts += [f"{counted(stale, 'slice')} of other dates {'is' if stale == 1 else 'are'} stale"] if stale else []
    return ", ".join(parts)


def _left_stale(end: TaskEnd) -> str:
    """The slices that are stale for reasons of their own, with what makes them right."""
    labels = [each.slice.label for each in end.stale]
    count = f"[{labels[0]}] is stale" if len(labels) == 1 else f": {counted(len(labels), 'slice')} are stale, the first"
    return f"  {end.task}{count}: {end.stale[0].why}; next: {make_right(end.task, labels, end.stale[0].way_out)}"


def _end_data(end: TaskEnd) -> dict[str, Any]:
    return {
        "task": end.task,
        "results": [run_data(result) for result in end.results],
        "error": end.error.details() if end.error else None,
        "waits_for": end.waits_for,
        "left_out": end.left_out,
        "stale": [{"label": each.slice.label, "why": each.why, "way_out": each.way_out} for each in end.stale],
    }


@contextmanager
def printing_others(output: Format) -> Iterator[None]:
    """A slice that failed does not hide those of the same call that ended well. As JSON they stand beside the error."""
    try:
        yield
    except (TwiceError, Interrupted) as end:
        error = end.error if isinstance(end, Interrupted) else end
        for result in error.results if output is Format.text else ():
            print_result(result)
        sys.stdout.flush()
        raise


def print_result(result: RunResult) -> None:
    for slice_ in result.slices:
        parts = [f"mark {result.mark}"] if result.mark else [version_text(slice_.generation)]
        parts += [counted(slice_.rows, "row")] if slice_.rows is not None else []
        parts += [f"version {result.version}"] if result.version is not None else []
        print(f"{result.task}[{slice_.label}]: {_outcome_text(result.outcome)} ({', '.join(parts)})")
        if slice_.fingerprint:
            print(f"  fingerprint {slice_.fingerprint}")
    if result.changes:
        print(f"  rows: {result.changes}")
    print(f"  why: {result.why}")
    if result.audits:
        passed = sum(audit.passed for audit in result.audits)
        print(f"  audits: {passed} of {len(result.audits)} passed")
    for effect in result.effects:
        print(f"  effect {effect.name}: {effect_text(effect)}")
    for note in result.notes:
        print(f"  note: {runnable(note)}")
    print(f"  took {sum(result.seconds.values()):.1f} s")


def _outcome_text(outcome: Outcome) -> str:
    match outcome:
        case Outcome.PUBLISHED:
            return "published"
        case Outcome.ALREADY:
            return "already published"
        case Outcome.IDENTICAL:
            return "restated: IDENTICAL"
        case Outcome.CHANGED:
            return "restated: CHANGED"
        case Outcome.NOTHING_NEW:
            return "nothing new"
        case Outcome.UNKNOWN:
            return "published (provenance unknown)"
        case _:
            assert_never(outcome)


def dated(result: RunResult) -> str:
    label = result.slices[-1].label
    return "" if label in (WHOLE.label, SINCE.label) else f" --date {label}"


def print_explanation(explain: Explanation) -> None:
    verb = "would be computed" if explain.compute else "would stay as it is"
    print(f"{explain.task}[{explain.label}]: {verb} ({explain.why})")
    held = version_text(explain.generation) if explain.generation else "nothing of this slice"
    version = "" if explain.version is None else f", version {explain.version}"
    print(f"  target {explain.target}: holds {held}{version}; written by {explain.write}")
    for leaf in explain.leaves:
        at = "" if leaf.version is None else f" at version {leaf.version}"
        print(f"  reads {leaf.kind} {leaf.name}{at}" + ("" if leaf.identity else " (unversioned: always recomputed)"))
    if explain.quarantined:
        print(runnable(f"  quarantined: a run would refuse it; next: twice retry {explain.task}"))
    for suspicion in explain.suspicions:
        print(f"  would be refused: {suspicion.name} reaches {', '.join(suspicion.columns)}")
