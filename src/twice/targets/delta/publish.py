"""What both ways of publishing share: what is staged, and what is true after a commit that may have failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.token import Note
from twice.errors import OutcomeUnknown, StageMismatch
from twice.targets.delta.history import History
from twice.targets.delta.internal import Log
from twice.targets.delta.table import Table

TRIES = 5
"""How often a commit is tried again when others changed the table meanwhile but not our tokens."""


@dataclass(frozen=True)
class Stage:
    """The handle of what is staged. `files` are Delta's own added files on the internal path, else empty;
    `folder` is the hidden copy on the public one. `read_at`: the version of this very table the rows came from."""

    table: Table
    path: str
    files: tuple[Any, ...] = ()
    transaction: Any = None
    folder: str | None = None
    read_at: int | None = None


def check_unchanged(stage: Stage, now: Table | None) -> None:
    """Files staged for other columns must not enter the table."""
    if now is None or not stage.table.same_columns(now):
        raise StageMismatch(
            "the table's columns were changed by someone else while this run was at work",
            fix="Run the task again.",
        )


def landed_or_not(
    session: SparkSession, staged: Staged, expected: Mapping[str, int], note: Note, cause: Exception | None = None
) -> Landed | Lost | None:
    """Read the table afresh (the caller holds its lock): ours landed, another's did, or (None) neither.

    A lost reply is normal, and Delta may even call its own commit a conflict; only the table knows.
    """
    stage: Stage = staged.handle
    try:
        log, app = Log(session, stage.path), staged.plan.app_ids[0]
        version, _ = log.generations(())
        # The commit itself tells more cheaply than the log as a whole: it carries the rows and the tokens together.
        if version is not None:
            history = History(session, stage.path)
            found = history.find(app, note.generations[app], version, oldest=stage.table.version)
            if found is not None and found[1].attempt == staged.attempt:
                return Landed(found[0])
        version, generations = log.generations(staged.plan.app_ids)
        if version is not None and generations != dict(expected):
            return Lost(Published(version, generations))
    except Exception as error:  # noqa: BLE001 - whatever stops us from reading, we do not know
        raise OutcomeUnknown(
            "the commit's reply was lost and the table cannot be read",
            now="The table may or may not hold the new rows.",
            fix="Run the task again: it will look first.",
        ) from (cause or error)
    return None
