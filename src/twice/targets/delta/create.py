"""How a table must be for a result: as it is, wider, or made. Nothing is written here; what does not fit is refused.

So is a folder that is not free: a Delta table made over a Parquet dataset would show its own rows only, Parquet readers
would see both, and VACUUM would delete the old files. What killed attempts of ours have left does not count, nor what
every reader passes over.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from twice.core.names.spark import quoted
from twice.core.ports import Column, Shape
from twice.core.time_scope import SliceColumn
from twice.core.write import Layout
from twice.errors import DeclarationError
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.table import FORGETS_TOKENS, Intent, Table, slices_by_condition, wider
from twice.targets.grain import (
    CUT,
    MARK,
    check_cut,
    check_grain,
    check_partitioning,
    check_values,
    partition_grain,
    slice_value,
)
from twice.targets.schema import check_named, intended


def intend(log: Log, held: Table | None, shape: Shape, layout: Layout, evolve: bool) -> Intent:
    """The table as the commit that publishes this result will leave it (`held`: as it is, None if it is missing)."""
    columns = intended(shape, None if held is None else held.shape, evolve)
    if held is None:
        metadata = _new(log.session, columns, layout)
        # Delta adds what the session's defaults say: only then it is known which path may write it.
        return Intent(log.begin().become(metadata), None, metadata)
    new = columns[len(held.shape.columns) :]
    if not new:
        return Intent(held, held)
    added = tuple(_schema(log.session, new).jsonValue()["fields"])
    return Intent(wider(held, added), held, added=added)


def check(session: SparkSession, name: str, path: str, into: Intent, layout: Layout) -> None:
    """Refuse what would make a slice own rows that are not its own, or a token that is forgotten."""
    table, wanted = into.table, layout.slice_column
    by_condition = wanted is not None and slices_by_condition(into.before, wanted.name)
    if not layout.any_partitions and not by_condition:
        check_partitioning(name, table.partition_columns, wanted)
    check_named(name, table.shape, layout)
    check_cut(name, table.properties.get(CUT), layout.cut)
    if FORGETS_TOKENS in table.properties:
        raise DeclarationError(
            f"{name} forgets its tokens after {table.properties[FORGETS_TOKENS]}: an old slice would look unpublished",
            now="The table is unchanged.",
            fix=f"Run: ALTER TABLE delta.{quoted(path)} UNSET TBLPROPERTIES ('{FORGETS_TOKENS}').",
        )
    if wanted is None or layout.any_partitions or into.before is None or by_condition:
        return
    check_grain(name, table.grain, wanted)
    # Every date is the beginning of a day: a daily table's log need not be read for this.
    if wanted.type == "timestamp" or wanted.grain == "month":
        column = next(name for name in table.partition_columns if name.lower() == wanted.name.lower())
        found = Log(session, path).partition_values(table.in_log(column))
        values = (slice_value(text, wanted.type) for text in found)
        check_values(name, table.grain, values, wanted)


def _new(session: SparkSession, columns: Sequence[Column], layout: Layout) -> str:
    """Delta's metadata of a new table, partitioned by the slice column, which remembers its grain."""
    slice_column = layout.slice_column
    cut = {} if layout.cut is None else {CUT: str(layout.cut)}
    by = [] if slice_column is None else [_spelled(columns, slice_column)]
    marks = {} if slice_column is None else {by[0]: {MARK: partition_grain(slice_column)}}
    body: dict[str, Any] = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _schema(session, columns, marks).json(),
        "partitionColumns": by,
        "configuration": {"delta.columnMapping.mode": "none", **cut},
        "createdTime": int(time.time() * 1000),
    }
    return json.dumps({"metaData": body})


def _schema(
    session: SparkSession, columns: Sequence[Column], marks: dict[str, dict[str, str]] | None = None
) -> StructType:
    """As Spark itself reads the types, every column nullable."""
    marks = marks or {}
    nothing = [lit(None).cast(each.type).alias(each.name, metadata=marks.get(each.name, {})) for each in columns]
    return session.range(0).select(*nothing).schema


def _spelled(columns: Sequence[Column], slice_column: SliceColumn) -> str:
    for column in columns:
        if column.name.lower() == slice_column.name.lower():
            return column.name
    raise DeclarationError(
        f"the result has no {slice_column.type} column {slice_column.name}",
        fix="Keep the scope's column in the result.",
    )


_OURS = re.compile(r"twice-[A-Za-z0-9_-]{1,64}-(part|cdc)-.+\.parquet")
_LOG = "_delta_log"


def check_free(name: str, folder: Path, parents: int) -> None:
    """Refuse to make the table `name` in a folder that holds anything else, or inside the folder of another table (so
    many folders above it are the warehouse's)."""
    for above in list(folder.parents)[:parents]:
        if (above / _LOG).is_dir():
            raise _taken(name, f"{above} is a table, and its VACUUM would delete files of a table inside it")
    found = next(_foreign(folder), None)
    if found is not None:
        raise _refusal(name, folder, found)


def _foreign(folder: Path) -> Iterator[Path]:
    """Every file below that is not ours, as a path below the folder; and every link to a folder: it is not followed,
    and readers do."""
    if folder.is_file():
        yield Path(folder.name)
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not _passed_over(each))
        inside = Path(at).relative_to(folder)
        ours = all("=" in part for part in inside.parts)
        yield from (inside / each for each in folders if (Path(at) / each).is_symlink())
        for file in sorted(files):
            if not _passed_over(file) and not (ours and _OURS.fullmatch(file)):
                yield inside / file


def _passed_over(name: str) -> bool:
    """By Spark's readers and by VACUUM: `_twice`, a log without commits, `.hidden`; but not a partition `_a=1`."""
    return name.startswith((".", "_")) and "=" not in name


def _refusal(name: str, folder: Path, found: Path) -> DeclarationError:
    for below in found.parents[:-1]:
        if (folder / below / _LOG).is_dir():
            return _taken(name, f"{folder} is the folder of other tables, e.g. {below}")
    if (folder / found).is_symlink():
        return _taken(name, f"{folder} holds a link that is not a file of twice, {found}")
    if (folder / "metadata").is_dir() and any((folder / "metadata").glob("*.metadata.json")):
        return _taken(name, f"{folder} holds an Iceberg table")
    if (folder / ".hoodie").is_dir():
        return _taken(name, f"{folder} holds a Hudi table")
    if found.suffix != ".parquet":
        return _taken(name, f"{folder} holds files that are not a table of twice, e.g. {found}")
    columns = [part.partition("=")[0] for part in found.parent.parts if "=" in part]
    cut = f" PARTITIONED BY ({', '.join(f'{column} …' for column in columns)})" if columns else ""
    return _taken(
        name,
        f"{folder} holds Parquet files that are not a Delta table, e.g. {found}",
        f"To keep their rows, make them one first: CONVERT TO DELTA parquet.`{folder}`{cut}. ",
    )


def _taken(name: str, what: str, first: str = "") -> DeclarationError:
    return DeclarationError(
        f"{name} cannot be made: {what}",
        now="Nothing was written.",
        fix=f"{first}Give the task another target, or move away what is there.",
    )
