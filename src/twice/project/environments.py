"""The environments on an opened project's ledger, and a person's decision to drop one of its project's."""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass

from twice.core.ledger.environment import (
    DroppedEnvironment,
    EnvironmentDrop,
    EnvironmentRecords,
    Unfinished,
)
from twice.core.results.summary import counted
from twice.errors import SliceBusy, TwiceError, UsageError
from twice.wiring.open_project import OpenProject

KEPT = "No record was deleted, and no table was touched."
BEGUN = "Some of its records are deleted already; no table was touched."


@dataclass(frozen=True)
class ListedEnvironment:
    """`present`: what this profile's tasks are recorded under, now or before their environment had a name."""

    records: EnvironmentRecords
    present: bool


def environments(opened: OpenProject) -> tuple[ListedEnvironment, ...]:
    """Every one that the ledger has records of, of all projects."""
    return tuple(
        ListedEnvironment(found, found.project == opened.settings.project and _is_present(opened, found.environment))
        for found in opened.ledger.environments.listed()
    )


def dropped(opened: OpenProject) -> tuple[DroppedEnvironment, ...]:
    """Those that were dropped from the ledger, of all projects."""
    return opened.ledger.environments.dropped()


def to_drop(opened: OpenProject, name: str) -> EnvironmentRecords | None:
    """What there is of an environment that may be dropped; None if there is nothing. Raises if it may not."""
    if _is_present(opened, name):
        raise UsageError(
            f"{name} is the environment of this profile: its records decide what is run and sent here",
            now=KEPT,
            fix="Drop an environment whose tables are gone for good, under the settings of another one.",
        )
    unfinished = opened.ledger.environments.unfinished(name)
    if unfinished.any:
        raise _refusal(name, unfinished)
    mine = (each.records for each in environments(opened) if each.records.project == opened.settings.project)
    return next((each for each in mine if each.environment == name), None)


def drop(opened: OpenProject, name: str, by: str, reason: str) -> EnvironmentRecords | None:
    """Delete every record that this project's environment has in the ledger; what there was. No table is touched. A
    second call finds nothing. Dying in here leaves the rest to the next call."""
    if not reason.strip():
        raise UsageError("a reason is needed: it is recorded", now=KEPT, fix='Write --reason "its branch is merged".')
    if to_drop(opened, name) is None:
        return None
    opened.progress.begins("deleting its records", name)
    found = opened.ledger.environments.drop(name, EnvironmentDrop(uuid.uuid4().hex, by, reason))
    if isinstance(found, Unfinished):
        raise _refusal(name, found)
    return found


def _refusal(name: str, found: Unfinished) -> TwiceError:
    """What is at work comes first: it may leave effects, too."""
    now = BEGUN if found.begun else KEPT
    if found.at_work:
        held = ", ".join(
            f"{each.where} by {each.holder} until {each.until:%Y-%m-%d %H:%M:%S}" for each in found.at_work
        )
        return SliceBusy(
            f"the environment {name} is at work: {held}",
            now=now,
            fix="Let it end, or stop it and wait until its lease has run out. Then drop the environment.",
        )
    total, first = sum(found.effects.values()), found.first[0].id
    named = ", ".join(f"{each.id} {each.where} ({each.state.value})" for each in found.first)
    return UsageError(
        f"the environment {name} has {counted(total, 'effect')} that nobody has settled: {named}"
        f"{', …' if total > len(found.first) else ''}",
        now=now,
        fix=f"Decide on each: twice effects resolve {first} --environment {shlex.quote(name)} --sent|--abandon "
        f'--reason "…". See them: twice effects list --environment {shlex.quote(name)}.',
    )


def _is_present(opened: OpenProject, name: str) -> bool:
    owner = opened.ledger.owner
    return name in owner.environments or any(name in table.formerly for table in owner.tables.values())
