"""ledger environments and drop-environment: whose records are in a ledger, and a person's decision to delete some."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.hints import runnable
from twice.cli.history_text import moment
from twice.cli.options import HERE, Format, Output, Reason, Where, Yes, ask, boundary, print_json
from twice.cli.terminal import Symbol, say, say_table
from twice.core.names.reference import hide_passwords
from twice.core.results.summary import counted

if TYPE_CHECKING:
    from twice.core.ledger.environment import DroppedEnvironment, EnvironmentRecords
    from twice.core.ledger.outbox import EffectState
    from twice.project.environments import ListedEnvironment

Name = Annotated[str, typer.Argument(metavar="NAME", help="An environment's name, from twice ledger environments.")]

LOST = (
    "Which effects were sent is not known any more: if its tables are ever run again, what is published there is read "
    "from them, its effects are unknown, and those of a table that was recreated go out again."
)
"""What nobody can find out again once an environment's records are gone."""


@boundary
def environments(output: Output = Format.text, where: Where = HERE) -> int:
    """List whose records are in this ledger.

    Each environment of each project: how much there is of it, and when the last of it was written.
    """
    from twice.project import environments as project

    with where.open() as opened:
        found, gone = project.environments(opened), project.dropped(opened)
    if output is Format.json:
        print_json({"environments": [_listed_data(each) for each in found], "dropped": [asdict(each) for each in gone]})
        return 0
    head = ("project", "environment", "tasks", "slices", "attempts", "effects", "newest record", "")
    if found:
        say_table(head, [_row(each) for each in found], cuts=())
    for each in gone:
        say(_dropped_text(each))
    if any(not each.present for each in found):
        say(runnable('next: twice ledger drop-environment NAME --reason "…", if its tables are gone for good'))
    return 0


@boundary
def drop_environment(
    name: Name,
    reason: Reason,
    yes: Yes = False,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Delete every record of an environment that is not used any more.

    Asks first; who did it and why is kept. Of this project alone, and not of the environment it is called in. No table
    is touched. Which effects were sent is not known afterwards. Refused while something of it is at work, or an effect
    of it is not settled.
    """
    from twice.project import environments as project

    with where.open() as opened:
        found = project.to_drop(opened, name)
        if found is not None and not yes:
            ask(
                f"{name}: {_amounts(found)} of project {found.project} are deleted from this ledger, for good; the "
                f"newest is of {moment(found.newest)}. {LOST} No table is touched. Drop this environment?",
                "an environment is not dropped",
                project.KEPT,
            )
        found = found and project.drop(opened, name, getpass.getuser(), reason)
    if output is Format.json:
        print_json({"dropped": None if found is None else _data(found)})
    elif found is None:
        say(f"{name}: there is nothing of this environment in the ledger", Symbol.SAME)
    else:
        say(f"{name}: {_amounts(found)} deleted from the ledger. No table was touched.", Symbol.DONE)
        say(LOST)
    return 0


def _row(each: ListedEnvironment) -> tuple[str, ...]:
    found = each.records
    numbers = (f"{number:,}" for number in (found.tasks, found.slices, found.attempts))
    effects, here = _effects(found.effects) or "-", "this one" if each.present else ""
    return (found.project, hide_passwords(found.environment), *numbers, effects, moment(found.newest), here)


def _amounts(found: EnvironmentRecords) -> str:
    effects = counted(sum(found.effects.values()), "effect") + (
        f" ({_effects(found.effects)})" if found.effects else ""
    )
    unreported = f" ({found.open:,} without a report of its end)" if found.open else ""
    return (
        f"{counted(found.tasks, 'task')}, {counted(found.slices, 'slice')}, {counted(found.attempts, 'attempt')}"
        f"{unreported}, {effects}, {counted(found.backfills, 'backfill')} and {counted(found.proofs, 'proof')}"
    )


def _effects(counts: Mapping[EffectState, int]) -> str:
    return ", ".join(f"{count:,} {state.value}" for state, count in counts.items())


def _dropped_text(each: DroppedEnvironment) -> str:
    return (
        f"{hide_passwords(each.environment)} of {each.project} was dropped on {moment(each.at)} by {each.by}: "
        f"{each.reason}"
    )


def _listed_data(each: ListedEnvironment) -> dict[str, Any]:
    return {**_data(each.records), "present": each.present}


def _data(found: EnvironmentRecords) -> dict[str, Any]:
    return {**asdict(found), "effects": {state.value: count for state, count in found.effects.items()}}
