"""The public path's stage: a hidden copy beside the data, which no version of the table ever refers to."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from twice.core.failpoints import Point, hit
from twice.core.write import Plan
from twice.errors import DeclarationError, RowsOutsideSlice, StageMismatch
from twice.targets.delta.condition import owned
from twice.targets.delta.lock import FOLDER
from twice.targets.delta.publish import Stage
from twice.targets.delta.site import Site


def stage_folder(path: str, attempt: str) -> str:
    return f"{path.rstrip('/')}/{FOLDER}/stage/{attempt}"


def write(site: Site, stage: Stage, frame: DataFrame, plan: Plan) -> int:
    """How many rows the copy has. Rows outside the slice are refused. Dying here leaves the hidden folder."""
    if len(plan.slices) != 1:
        raise DeclarationError(
            f"{site.name.name} can take one slice per commit only, and this run has {len(plan.slices)}",
            now="The table is unchanged.",
            fix="Run the slices one by one.",
        )
    assert stage.folder is not None
    frame.write.mode("overwrite").parquet(stage.folder)
    hit(Point.IN_STAGE)
    copy = rows(site.session, stage)
    inside = owned(plan.slices, copy.columns) or "true"
    total, within = copy.selectExpr("count(*)", f"count_if({inside})").first() or (0, 0)
    if total != within:
        raise RowsOutsideSlice(
            f"the result has {total - within} rows outside {plan.slices[0].label}",
            fix="Filter the result to its slice.",
        )
    return int(total)


def rows(session: SparkSession, stage: Stage) -> DataFrame:
    """The hidden copy. Its schema is said, not inferred: an empty copy has the table's columns too."""
    assert stage.folder is not None
    schema = StructType.fromJson(json.loads(stage.table.schema))
    return session.read.schema(schema).parquet(stage.folder)


def check_whole(site: Site, stage: Stage, staged: int) -> None:
    """A mark that was set back may be where a slow attempt expects it, although its copy was collected since."""
    found = rows(site.session, stage).count() if _there(site.session, str(stage.folder)) else 0
    if found != staged:
        raise StageMismatch(
            f"{staged - found} of the staged rows are gone, collected after another attempt had published",
            fix="Run the task again.",
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
