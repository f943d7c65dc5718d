"""Delete what an attempt staged and nobody published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from twice.core.slice import Slice
from twice.targets.delta.history import History
from twice.targets.delta.internal import Log
from twice.targets.delta.public import stage_folder
from twice.targets.delta.replace import prefix
from twice.targets.delta.table import Table
from twice.targets.grain import slice_value


def discard(session: SparkSession, path: str, table: Table, attempt: str, slices: Sequence[Slice]) -> int:
    """How many files were deleted. The caller holds the table's lock, so that no commit is under way.

    Dying here leaves the rest to the next call.
    """
    jvm: Any = session._jvm
    root = jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    gone = _remove_copy(files, jvm.org.apache.hadoop.fs.Path(stage_folder(path, attempt)))
    found = [at for folder in _folders(files, root, table, slices) for at in _named(files, folder, attempt)]
    if found and not _landed(session, path, attempt):
        for at in found:
            gone += bool(files.delete(at, False))
    return gone


def _landed(session: SparkSession, path: str, attempt: str) -> bool:
    """Whether any version, old or new, may refer to the attempt's files.

    The log's commits name each file they add or remove; what was added by a commit the log has since forgotten
    is in the newest version, or was removed by a commit it remembers.
    """
    note = f'\\"attempt\\":\\"{attempt}\\"'
    return History(session, path).mentions(prefix(attempt), note) or Log(session, path).refers_to(prefix(attempt))


def _remove_copy(files: Any, folder: Any) -> int:
    """The public path's hidden copy: no version ever refers to it."""
    if not files.exists(folder):
        return 0
    count = int(files.getContentSummary(folder).getFileCount())
    files.delete(folder, True)
    return count


def _folders(files: Any, root: Any, table: Table, slices: Sequence[Slice]) -> Iterator[Any]:
    """Only the folders of the slices: a table has thousands of others."""
    if not files.exists(root):
        return
    if table.shape.partitioned_by is None:
        yield root
        return
    for status in files.listStatus(root):
        column, equals, value = str(status.getPath().getName()).partition("=")
        if equals and unquote(column) == table.shape.partitioned_by and _inside(unquote(value), table, slices):
            yield status.getPath()


def _inside(text: str, table: Table, slices: Sequence[Slice]) -> bool:
    try:
        value = slice_value(text, table.slice_type or "")
    except ValueError:
        return False
    return any(slice_.bounds is not None and slice_.bounds.contain(value) for slice_ in slices)


def _named(files: Any, folder: Any, attempt: str) -> list[Any]:
    starts = tuple(f"{prefix(attempt)}{kind}-" for kind in ("part", "cdc"))
    return [at.getPath() for at in files.listStatus(folder) if str(at.getPath().getName()).startswith(starts)]
