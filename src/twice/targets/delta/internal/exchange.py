"""Exchange a table for its side table by the internal path: one commit of the new metadata, with all of the table's
files out, those of the side table in, and a token for every slice.

The side table's files are brought into the table's folder first, under the attempt's name: as links where the file
system has them, else as copies. So the side table is whole until it is dropped, and the table refers to files of its
own alone.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from twice.core.failure.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.write import ReplaceTable, WritePlan
from twice.errors import DeclarationError, StageMismatch
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.internal.in_place import prefix
from twice.targets.delta.log.table import Intent, Table, exchanged, why_public
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.write.manifest import file_of, in_all
from twice.targets.delta.write.publish import Publishing, Stage, Work, locked_compare_and_swap
from twice.targets.side import another_side


class _PublishedSince(Exception):
    def __init__(self, lost: Lost) -> None:
        super().__init__(lost)
        self.lost = lost


def stage(table_handle: TableHandle, side_handle: TableHandle, held: Table, plan: WritePlan, attempt: str) -> Staged:
    """Dying here leaves links and copies named by the attempt, which no version of the table refers to."""
    verb = _verb(plan)
    transaction = side_handle.log.begin(verb.at)
    side = transaction.table
    if side is None or verb.side_id not in (None, side.id):
        raise another_side(verb)
    refuse_exchange(table_handle.name.name, held, why_public(side, by_slice=False))
    added = [_brought(table_handle, side_handle, file, attempt) for file in transaction.all_files()]
    hit(Point.IN_STAGE)
    into = Intent(exchanged(held, side), held, exchanged=True)
    files = [file_of(file.json(), None) for file in added]
    rows = in_all(files)
    counts = {slice_.label: 0 if at else rows for at, slice_ in enumerate(plan.slices)}
    handle = Stage(into, table_handle.path, publish, tuple(added), transaction)
    return Staged(table_handle.name, plan, attempt, rows, counts, tuple(file.path for file in files), handle=handle)


def publish(publishing: Publishing) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""
    try:
        return locked_compare_and_swap(publishing, _work)
    except _PublishedSince as since:
        return since.lost


def refuse_exchange(name: str, held: Table, other: str | None = None) -> None:
    """Raise DeclarationError for a table that our own commits may not write (`other`: a reason that is not the
    table's), or whose rules the new rows were not held against."""
    found = _in_the_way(held, other)
    if found is not None:
        why, fix = found
        raise DeclarationError(f"{name} cannot be exchanged: {why}", now="The table is unchanged.", fix=fix)


def _in_the_way(held: Table, other: str | None) -> tuple[str, str] | None:
    why = other or why_public(held, by_slice=False)
    if why is not None:
        return why, "Give the task a new target, fill it with twice backfill, and let its readers move over."
    if held.constraints:
        names = ", ".join(name.removeprefix("delta.constraints.") for name in sorted(held.constraints))
        return (
            f"its rows are held against the constraint {names}, and the new ones were not",
            "Drop it (ALTER TABLE … DROP CONSTRAINT …), and add it again afterwards: Delta then checks the rows.",
        )
    strict = [field["name"] for field in json.loads(held.schema)["fields"] if not field["nullable"]]
    if strict:
        return (
            f"NULL is not allowed in {', '.join(strict)}, and the new rows were not held against that",
            "Allow it (ALTER TABLE … ALTER COLUMN … DROP NOT NULL) first.",
        )
    return None


def _work(transaction: Transaction, staged: Staged) -> Work:
    """All files out, the side table's in. Whatever others did since the transaction began is a conflict."""
    handle: Stage = staged.handle
    transaction.read_whole_table()
    newer = {
        name: generation
        for name, generation in transaction.tokens(_verb(staged.plan).prefix).items()
        if name not in staged.plan.compared
    }
    if newer:
        found = transaction.generations(staged.plan.compared)
        raise _PublishedSince(Lost(Published(transaction.version, {**found, **newer})))
    files = [file_of(file.json(), None) for file in handle.files]
    if in_all(files) != staged.rows:
        raise StageMismatch("the staged files do not hold the rows that were staged", fix="Run it again.")
    return Work(handle.files, transaction.files_in(None, None, None), "true", staged=files)


def _brought(table_handle: TableHandle, side_handle: TableHandle, file: Any, attempt: str) -> Any:
    """A file of the side table as one of the table's."""
    action = json.loads(file.json())
    body = action["add"]
    if body.get("deletionVector"):
        raise StageMismatch(f"{body['path']} of the side table has rows that are only marked as deleted")
    folder, slash, name = body["path"].rpartition("/")
    path = f"{folder}{slash}{prefix(attempt)}part-{name}"
    _bring(table_handle, side_handle, body["path"], path)
    body["path"] = path
    return table_handle.log.action(json.dumps(action))


def _bring(table_handle: TableHandle, side_handle: TableHandle, source: str, path: str) -> None:
    """Link it, or copy it where that is not possible: another disk, a file system without links, an object store."""
    here, there = table_handle.local, side_handle.local
    if here is None or there is None:
        table_handle.copy_from(side_handle, source, path)
        return
    to, from_ = here / unquote(path), there / unquote(source)
    to.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.link(from_, to)
        return
    _copied(from_, to)


def _copied(from_: Path, to: Path) -> None:
    """On the disk when this returns: a commit must not outlive what it refers to."""
    shutil.copyfile(from_, to)
    with to.open("rb") as written:
        os.fsync(written.fileno())


def _verb(plan: WritePlan) -> ReplaceTable:
    assert isinstance(plan.write, ReplaceTable), plan.write
    return plan.write
