"""What is true of some tasks, and the one command that comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from twice.cli.hints import runnable
from twice.cli.terminal import Symbol
from twice.core.results.summary import counted
from twice.core.since import SINCE
from twice.core.slice import WHOLE

if TYPE_CHECKING:
    from twice.core.ledger.record import RunRecord
    from twice.core.results.status import Status, TaskStatus


class Conclusion(NamedTuple):
    """What is true, and the one command that comes next; empty if there is nothing to do."""

    mark: Symbol
    truth: str
    then: str


def conclusion(found: Status) -> Conclusion:
    """Of all tasks that are listed. What stopped reporting is settled first, then what failed is tried again: both may
    make right what else is not."""
    tasks = found.tasks
    silent, failed = sum(len(task.silent) for task in tasks), sum(len(task.failed) for task in tasks)
    stale, missing = sum(len(task.stale) for task in tasks), sum(len(task.missing) for task in tasks)
    parts = [f"{counted(silent, 'slice')} stopped reporting"] if silent else []
    parts += [f"{counted(failed, 'slice')} failed"] if failed else []
    parts += [f"{counted(stale, 'slice')} {_is(stale)} stale"] if stale else []
    parts += [f"{counted(missing, 'slice')} {_is(missing)} missing"] if missing else []
    truth = ", ".join(parts)
    if silent:
        return Conclusion(Symbol.FAILED, truth, runnable("twice recover"))
    if failed:
        return Conclusion(Symbol.FAILED, truth, retry_failed(found.last_failed))
    if stale:
        return Conclusion(Symbol.NOTICE, truth, _make_stale_right(found))
    if missing:
        return Conclusion(Symbol.WAITING, truth, _fill({task.task: tuple(task.missing) for task in tasks}))
    return _nothing_wrong([task for task in tasks if task.scope is not None])


def _nothing_wrong(tasks: Sequence[TaskStatus]) -> Conclusion:
    names = ", ".join(task.task for task in tasks if not task.published)
    if names:
        return Conclusion(Symbol.WAITING, f"nothing is published of {names}", runnable("twice run TASK --date DATE"))
    who = tasks[0].task if len(tasks) == 1 else "every task"
    looked = [task.looked for task in tasks if task.looked is not None and task.looked_at_this_code]
    if len(looked) < len([task for task in tasks if task.scope != SINCE.label]):
        truth = f"{who} is right as far as the ledger knows"
        return Conclusion(Symbol.DONE, truth, runnable("twice status --refresh (it looks at the tables)"))
    as_of = f" as of {min(looked):%Y-%m-%d %H:%M} UTC" if looked else ""
    return Conclusion(Symbol.DONE, f"{who} is right{as_of}", "")


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def retry_failed(last: RunRecord | None) -> str:
    again = runnable("twice retry --failed")
    return again if last is None else f"{runnable(f'twice history {last.task} --date {last.label}')}, then {again}"


def _make_stale_right(found: Status) -> str:
    """Where no run computes any of them again, what a person can do with the first."""
    computed = {task.task: [x for x in task.stale if (task.task, x) not in found.kept] for task in found.tasks}
    labels = {name: tuple(each) for name, each in computed.items() if each}
    if not labels:
        return runnable(next(iter(found.kept.values()), ""))
    if len(labels) == 1:
        ((name, only),) = labels.items()
        return make_right(name, only)
    return runnable("twice backfill --all --only stale")


def _fill(labels: Mapping[str, Sequence[str]]) -> str:
    """The backfill of these slices of several tasks; what is not cut by time is run."""
    cut = {name: each for name, each in labels.items() if each and each[0] not in (WHOLE.label, SINCE.label)}
    if not cut:
        return runnable(f"twice run {next(name for name, each in labels.items() if each)}")
    first, last = min(each[0] for each in cut.values()), max(each[-1] for each in cut.values())
    whose = "--all" if len(cut) > 1 else next(iter(cut))
    first, last = (first, last) if len(cut) == 1 else (_day(first), _day(last))
    return runnable(f"twice backfill {whose} --from {first} --to {last}")


def _day(label: str) -> str:
    """The day that a slice begins with."""
    return f"{label}-01" if len(label) == len("2026-06") else label[: len("2026-06-09")]


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
