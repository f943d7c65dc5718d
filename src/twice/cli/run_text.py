"""What run, restate, retry and plan print: results as they come, and what a run would do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from twice.cli.display import current_display
from twice.cli.effects import effect_text
from twice.cli.hints import runnable
from twice.cli.next_step import make_right
from twice.cli.options import Format, print_error, print_json, run_data, without_earlier
from twice.cli.terminal import Symbol, on_terminal, say
from twice.core.closed import assert_never
from twice.core.failure.interruption import exit_code_of
from twice.core.lineage import source_name
from twice.core.results.run import Outcome, RunResult
from twice.core.results.summary import counted, counted_each, counted_of, run_label
from twice.core.since import SINCE
from twice.core.slice import WHOLE
from twice.core.table.mark import version_text
from twice.errors import Interrupted, TwiceError

if TYPE_CHECKING:
    from twice.runtime.run.chain import Report, TaskEnd
    from twice.runtime.run.explain import Explanation, TaskPlan


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
        say("nothing has failed", Symbol.DONE)  # a chain has a task, what is tried again may have none
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
        why = "was not run" if not_run else "did not succeed"
        say(f"{end.task}: not run, because {end.waits_for} {why}", Symbol.WAITING)
    if end.left_out:
        say(f"{end.task}: left out, because {end.left_out}", Symbol.SAME)
    sys.stdout.flush()


def _print_sum(ends: tuple[TaskEnd, ...], failed: int) -> None:
    """On a terminal the sum comes last, with what to do."""
    stale = [_left_stale(end) for end in ends if end.stale]
    if not on_terminal():
        say("\n".join([_summary(ends, failed), *stale]))
        return
    for line in stale:
        say(line, Symbol.NOTICE)
    then = "fix the errors above, then run it again" if failed else runnable("twice status")
    say(f"{_summary(ends, failed)} ({took()}); next: {then}", Symbol.FAILED if failed else Symbol.DONE)


def _summary(ends: tuple[TaskEnd, ...], failed: int) -> str:
    asked = len([end for end in ends if not end.left_out])
    parts = [f"{counted_of(asked - failed, asked, 'task')} done"]
    parts += ["the others can be run again"] if failed else []
    parts += [f"{len(ends) - asked} left out"] if asked < len(ends) else []
    stale = sum(len(end.stale) for end in ends)
    parts += [f"{counted(stale, 'slice')} {'is' if stale == 1 else 'are'} stale"] if stale else []
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
        what = f"{_outcome_text(result.outcome)} ({', '.join(parts)})"
        say(f"{result.task}[{slice_.label}]: {what}", _mark_of(result.outcome))
        if slice_.fingerprint:
            say(f"  fingerprint {slice_.fingerprint}", colour="dim")
    if result.changes:
        say(f"  rows: {result.changes}", colour="dim")
    say(f"  why: {result.why}", colour="dim")
    if result.audits:
        passed = sum(audit.passed for audit in result.audits)
        say(f"  audits: {passed} of {len(result.audits)} passed", colour="dim")
    for effect in result.effects:
        say(
            f"  effect {effect.name}: {effect_text(effect)}",
            colour="yellow" if effect.state.waits_for_a_person else "dim",
        )
    for note in result.notes:
        say(f"  note: {runnable(note)}", colour="yellow")
    say(f"  took {sum(result.seconds.values()):.1f} s", colour="dim")


def print_last_line(results: Sequence[RunResult], then: str) -> None:
    """What to do next; on a terminal also what is true by now."""
    if not on_terminal():
        say(then)
        return
    labels = [slice_.label for result in results for slice_ in result.slices]
    outcomes = [_outcome_text(result.outcome) for result in results for _ in result.slices]
    what = f"{counted(len(labels), 'slice')} are up to date: {counted_each(outcomes)}"
    if len(labels) == 1:
        what = f"{run_label(results[-1].task, labels)} is up to date: {outcomes[0]}"
    say(f"{what} ({took()}); {then}", _mark_of(results[-1].outcome))


def took() -> str:
    """How long this command has taken."""
    return f"{current_display().took:.1f} s in all"


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


def _mark_of(outcome: Outcome) -> Symbol:
    match outcome:
        case Outcome.PUBLISHED:
            return Symbol.DONE
        case Outcome.ALREADY | Outcome.IDENTICAL | Outcome.NOTHING_NEW:
            return Symbol.SAME
        case Outcome.CHANGED:
            return Symbol.CHANGED
        case Outcome.UNKNOWN:
            return Symbol.NOTICE
        case _:
            assert_never(outcome)


def dated(result: RunResult) -> str:
    label = result.slices[-1].label
    return "" if label in (WHOLE.label, SINCE.label) else f" --date {label}"


def print_explanation(explain: Explanation) -> None:
    verb = "would be computed" if explain.compute else "would stay as it is"
    mark = Symbol.FAILED if _is_refused(explain) else Symbol.WAITING if explain.compute else Symbol.SAME
    say(f"{explain.task}[{explain.label}]: {verb} ({explain.why})", mark)
    held = version_text(explain.generation) if explain.generation else "nothing of this slice"
    version = "" if explain.version is None else f", version {explain.version}"
    say(f"  target {explain.target}: holds {held}{version}; written by {explain.write}", colour="dim")
    for leaf in explain.leaves:
        at = "" if leaf.version is None else f" at version {leaf.version}"
        note = "" if leaf.identity else " (unversioned: always recomputed)"
        if source_name(leaf.name) in explain.not_watched:
            note = " (not watched: its changes make no slice stale)"
        say(f"  reads {leaf.kind} {leaf.name}{at}{note}", colour="dim")
    if explain.quarantined:
        say(runnable(f"  quarantined: a run would refuse it; next: twice retry {explain.task}"), colour="yellow")
    for suspicion in explain.suspicions:
        say(f"  would be refused: {suspicion.name} reaches {', '.join(suspicion.columns)}", colour="red")


def print_forecast(forecasts: Sequence[Explanation]) -> None:
    """The last line of a plan, on a terminal."""
    if not on_terminal():
        return
    last, refused = forecasts[-1], [each for each in forecasts if _is_refused(each)]
    computed = sum(each.compute for each in forecasts)
    date = "" if last.label in (WHOLE.label, SINCE.label) else f" --date {last.label}"
    then = runnable(f"twice run {last.task}{date}") if computed else "nothing to do"
    then = "fix the errors above" if refused else then
    what = f"{computed:,} of {counted(len(forecasts), 'slice')} would be computed; nothing was written"
    say(f"{what} ({took()}); next: {then}", Symbol.FAILED if refused else Symbol.WAITING if computed else Symbol.DONE)


def print_plans(
    plan: Callable[[Callable[[TaskPlan], None]], tuple[TaskPlan, ...]], date: str | None, output: Format
) -> int:
    """As text each slice in a line as it comes, then the sum; as JSON one document. Exit 1 if a task could not be
    planned."""
    if output is Format.json:
        plans = plan(lambda _: None)
        slices = [without_earlier(asdict(each)) for one in plans for each in one.slices]
        errors = [one.error.details() for one in plans if one.error]
        left_out = {one.task: one.left_out for one in plans if one.left_out}
        print_json({"plan": slices, "errors": errors, "left_out": left_out})
        return 1 if errors else 0
    plans = plan(_print_plan)
    return _print_plan_sum(plans, date)


def _print_plan(plan: TaskPlan) -> None:
    for each in plan.slices:
        refused = [f"{suspicion.name} reaches {', '.join(suspicion.columns)}" for suspicion in each.suspicions]
        refusal = f"; would be refused: {'; '.join(refused)}" if refused and each.compute else ""
        waits = Symbol.WAITING if each.compute or each.open else Symbol.SAME
        say(f"{each}{refusal}", Symbol.FAILED if _is_refused(each) else waits)
    if plan.error:
        print_error(plan.error, as_json=False, debug=False)
    if plan.left_out:
        say(f"{plan.task}: left out, because {plan.left_out}", Symbol.SAME)
    sys.stdout.flush()


def _print_plan_sum(plans: Sequence[TaskPlan], date: str | None) -> int:
    slices = [each for plan in plans for each in plan.slices]
    computed, open_ = sum(each.compute for each in slices), sum(each.open for each in slices)
    errors, left_out = sum(plan.error is not None for plan in plans), sum(plan.left_out is not None for plan in plans)
    wrong = errors or any(_is_refused(each) for each in slices)
    parts = [f"{computed:,} of {counted(len(slices), 'slice')} would be computed"]
    parts += [f"{open_:,} perhaps"] if open_ else []
    parts += [f"{counted(errors, 'task')} could not be planned"] if errors else []
    parts += [f"{counted(left_out, 'task')} left out"] if left_out else []
    then = runnable("twice run --all" + (f" --date {date}" if date else "")) if computed else "nothing to do"
    then = "correct what is named above" if wrong else then
    mark = Symbol.FAILED if wrong else Symbol.WAITING if computed else Symbol.DONE
    spent = f" ({took()})" if on_terminal() else ""
    say(f"{', '.join(parts)}; nothing was written{spent}; next: {then}", mark)
    return 1 if errors else 0


def _is_refused(explain: Explanation) -> bool:
    return explain.compute and bool(explain.suspicions or explain.quarantined)
