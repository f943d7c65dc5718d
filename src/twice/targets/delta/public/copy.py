"""The public path's stage: a hidden copy beside the data, which no version of the table ever refers to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from twice.core.failure.failpoints import Point, hit
from twice.core.write import WritePlan
from twice.errors import DeclarationError, RowsOutsideSlice
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.lock import FOLDER
from twice.targets.delta.log.condition import owned
from twice.targets.delta.write.manifest import DataFile
from twice.targets.delta.write.publish import Stage
from twice.targets.grain import MARK


def stage_folder(path: str, attempt: str) -> str:
    return f"{path.rstrip('/')}/{FOLDER}/stage/{attempt}"


def write(table_handle: TableHandle, stage: Stage, frame: DataFrame, plan: WritePlan) -> tuple[Stage, int]:
    """The stage with its files, and how many rows it has. Rows outside the slice are refused. Dying here leaves the
    hidden folder."""
    if len(plan.slices) != 1:
        raise DeclarationError(
            f"{table_handle.name.name} can take one slice per commit only, and this run has {len(plan.slices)}",
            now="The table is unchanged.",
            fix="Run the slices one by one.",
        )
    assert stage.folder is not None
    frame.write.mode("overwrite").parquet(stage.folder)
    hit(Point.IN_STAGE)
    copy = rows(table_handle.session, stage)
    inside = owned(plan.slices, copy.columns) or "true"
    total, within = copy.selectExpr("count(*)", f"count_if({inside})").first() or (0, 0)
    if total != within:
        raise RowsOutsideSlice(
            f"the result has {total - within} rows outside {plan.slices[0].label}",
            fix="Filter the result to its slice.",
        )
    return replace(stage, copied=files_of(table_handle, stage)), int(total)


def rows(session: SparkSession, stage: Stage) -> DataFrame:
    """The hidden copy. Its schema is given, not inferred: an empty copy has the table's columns too. What Delta keeps
    of a column is its own affair: a column that is new to the table must not bring any of it."""
    assert stage.folder is not None
    fields = StructType.fromJson(json.loads(stage.table.schema)).fields
    kept = [{name: value for name, value in (each.metadata or {}).items() if name == MARK} for each in fields]
    schema = StructType([StructField(f.name, f.dataType, True, mine) for f, mine in zip(fields, kept, strict=True)])
    return session.read.schema(schema).parquet(stage.folder)


def files_of(table_handle: TableHandle, stage: Stage) -> tuple[DataFile, ...]:
    """The copy's files, by their paths below the table."""
    folder = str(stage.folder)
    files, at = _folder(table_handle.session, folder)
    below = f"{FOLDER}/stage/{folder.rpartition('/')[2]}"
    return tuple(
        DataFile(f"{below}/{status.getPath().getName()}", None, None, int(status.getLen()))
        for status in files.listStatus(at)
        if str(status.getPath().getName()).startswith("part-")
    )


def remove(session: SparkSession, path: str, attempt: str) -> int:
    """How many files it had. No version ever refers to it, so it may go at any time."""
    at = stage_folder(path, attempt)
    if not _there(session, at):
        return 0
    files, folder = _folder(session, at)
    count = int(files.getContentSummary(folder).getFileCount())
    files.delete(folder, True)
    return count


def _there(session: SparkSession, at: str) -> bool:
    files, folder = _folder(session, at)
    return bool(files.exists(folder))


def _folder(session: SparkSession, at: str) -> tuple[Any, Any]:
    jvm: Any = session._jvm
    folder = jvm.org.apache.hadoop.fs.Path(at)
    return folder.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), folder
