"""A small reader of Delta tables without Spark and without any of the code under test: the log's JSON, then the files.

A test reads its table after every step, and a Spark job for three rows takes as long as the step. It reads what most
tables of tests are: every commit still there as JSON, no deletion vectors, no mapped columns, no nested values. Of
another table it gives None, and Spark must be asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

_TYPES = {
    "boolean": pa.bool_(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_MAPPED = "delta.columnMapping.mode"


@dataclass(frozen=True)
class DeltaVersion:
    """The newest version of a table: its files by their path, as the log added them, and what it says of itself."""

    table: Path
    files: dict[str, dict[str, Any]]
    metadata: dict[str, Any]

    @classmethod
    def newest(cls, table: Path) -> DeltaVersion:
        files: dict[str, dict[str, Any]] = {}
        metadata: dict[str, Any] = {}
        for commit in sorted((table / "_delta_log").glob("*.json")):
            for line in filter(None, commit.read_text(encoding="utf-8").split("\n")):
                action = json.loads(line)
                metadata = action.get("metaData", metadata)
                if "add" in action:
                    files[action["add"]["path"]] = action["add"]
                elif "remove" in action:
                    files.pop(action["remove"]["path"], None)
        return cls(table, files, metadata)

    @property
    def columns(self) -> dict[str, Any]:
        """Every column's type, as Delta names it."""
        return {field["name"]: field["type"] for field in json.loads(self.metadata["schemaString"])["fields"]}

    def paths(self) -> list[Path]:
        return [self.table / unquote(path) for path in self.files]

    def rows(self, *names: str) -> list[tuple[Any, ...]] | None:
        """Of these columns, or of all; in no order. None if this reader cannot be sure of them."""
        if any(add.get("deletionVector") for add in self.files.values()) or _MAPPED in self.metadata["configuration"]:
            return None
        types = {name: _arrow(self.columns[name]) for name in names or self.columns}
        if None in types.values():
            return None
        found: list[tuple[Any, ...]] = []
        for path, add in zip(self.paths(), self.files.values(), strict=True):
            part = pq.ParquetFile(path).read()
            held = [_column(part, add["partitionValues"], name, type_) for name, type_ in types.items()]
            found += zip(*(column.to_pylist() for column in held), strict=True)
        return found


def _column(part: pa.Table, values: dict[str, str | None], name: str, type_: pa.DataType) -> Any:
    """From the file, from the name of its folder, or NULL since the file is older than the column."""
    if name in values:
        return pa.array([values[name] or None] * len(part), pa.string()).cast(type_)
    if name not in part.column_names:
        return pa.nulls(len(part), type_)
    return part.column(name).cast(type_)


def _arrow(type_: Any) -> pa.DataType | None:
    if isinstance(type_, str) and type_.startswith("decimal("):
        precision, scale = type_[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES.get(type_) if isinstance(type_, str) else None
