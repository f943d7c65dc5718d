"""Delete what an attempt staged and did not publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from twice.core.slice import Slice
from twice.targets.delta.internal.in_place import prefix
from twice.targets.delta.log.history import CommitHistory
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.table import Table
from twice.targets.delta.public import copy
from twice.targets.grain import slice_value


def discard(session: SparkSession, path: str, table: Table | None, attempt: str, slices: Sequence[Slice]) -> int:
    """How many files were deleted; without a table, all that the attempt has left. The caller holds the table's lock:
    no commit is under way.

    Dying here leaves the rest to the next call.
    """
    jvm: Any = session._jvm
    root = jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    gone = copy.remove(session, path, attempt)
    folders = _everywhere(files, root) if table is None else _folders(files, root, table, slices)
    found = [at for folder in folders for at in _named(files, folder, attempt)]
    if found:
        referred = "" if table is None else _referred(session, path, attempt)
        for at in found:
            gone += str(at.getName()) not in referred and bool(files.delete(at, False))
    return gone


def left(session: SparkSession, path: str, attempt: str) -> bool:
    """Whether an attempt left anything where no table is."""
    jvm: Any = session._jvm
    root = jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    copied = files.exists(jvm.org.apache.hadoop.fs.Path(copy.stage_folder(path, attempt)))
    return bool(copied) or any(_named(files, folder, attempt) for folder in _everywhere(files, root))


def _everywhere(files: Any, folder: Any) -> Iterator[Any]:
    """A folder and all its partitions, however deep."""
    if not files.exists(folder) or not files.getFileStatus(folder).isDirectory():
        return
    yield folder
    for inner in _partitions(files, folder, 1):
        yield from _everywhere(files, inner)


def _referred(session: SparkSession, path: str, attempt: str) -> str:
    """Everything that any version, old or new, says of the attempt's files.

    The log's commits name each file they add or remove; what was added by a commit the log has since forgotten
    is in the newest version, or was removed by a commit it remembers.
    """
    mine = prefix(attempt)
    return "\n".join((*CommitHistory(session, path).mentions(mine), *Log(session, path).paths(mine)))


def _folders(files: Any, root: Any, table: Table, slices: Sequence[Slice]) -> Iterator[Any]:
    """Only the folders of the slices: a table has thousands of others. With column mapping Delta gives files folders of
    any name, which name no slice: such a table takes one slice per commit, so all that an attempt left there is its."""
    if not files.exists(root):
        return
    for status in files.listStatus(root):
        name = str(status.getPath().getName())
        if status.isDirectory() and "=" not in name and not name.startswith(("_", ".")):
            yield status.getPath()
    everywhere = any(slice_.bounds is None for slice_ in slices)
    if everywhere:
        yield from _everywhere(files, root)  # an exchange that was given up may have staged another layout
    elif not table.partition_columns:
        yield root
    elif len(table.partition_columns) > 1:
        yield from _partitions(files, root, len(table.partition_columns))
    else:
        wanted = table.in_log(table.partition_columns[0])
        for folder in _partitions(files, root, 1):
            column, _, value = str(folder.getName()).partition("=")
            if unquote(column) == wanted and _inside(unquote(value), table, slices):
                yield folder


def _partitions(files: Any, folder: Any, levels: int) -> Iterator[Any]:
    """The folders so many levels down; Delta's own and ours are none of them."""
    if levels == 0:
        yield folder
        return
    for status in files.listStatus(folder):
        if status.isDirectory() and "=" in str(status.getPath().getName()):
            yield from _partitions(files, status.getPath(), levels - 1)


def _inside(text: str, table: Table, slices: Sequence[Slice]) -> bool:
    try:
        value = slice_value(text, table.slice_type or "")
    except ValueError:
        return False
    return any(slice_.bounds is not None and slice_.bounds.contain(value) for slice_ in slices)


def _named(files: Any, folder: Any, attempt: str) -> list[Any]:
    starts = tuple(f"{prefix(attempt)}{kind}-" for kind in ("part", "cdc"))
    return [at.getPath() for at in files.listStatus(folder) if str(at.getPath().getName()).startswith(starts)]
