"""Declared files where there is no Spark: CSV with a header, and JSON by lines, with a schema."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from twice.core.file_input import FileRead, part_of
from twice.core.ports import Column
from twice.errors import DeclarationError

_TYPES: Mapping[str, Callable[[str], Any]] = {
    "bigint": int,
    "int": int,
    "double": float,
    "string": str,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
}


@dataclass(frozen=True)
class FileRows:
    """A frame of rows, as `targets.memory.rows.Rows` is."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


def read_files(wanted: FileRead) -> FileRows:
    source = wanted.source
    if source.schema is None or source.format not in ("csv", "json"):
        raise DeclarationError(f"without Spark, {source.format} files without a schema cannot be read")
    columns = [Column(*part.split()) for part in source.schema.lower().split(",")]
    rows = [_row(columns, record, file.path) for file in wanted.files for record in _records(file.place, source.format)]
    if source.path_column is not None:
        columns.append(Column(source.path_column, "string"))
        paths = [file.path for file in wanted.files for _ in _records(file.place, source.format)]
        rows = [(*row, path) for row, path in zip(rows, paths, strict=True)]
    return FileRows(tuple(columns), tuple(rows))


def _records(place: str, format_: str) -> list[dict[str, Any]]:
    with Path(place).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)) if format_ == "csv" else [json.loads(line) for line in file if line.strip()]


def _row(columns: list[Column], record: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """A column that a folder names is not in the file."""
    values = [record.get(column.name, part_of(path, column.name)) for column in columns]
    return tuple(
        None if value is None else _TYPES[column.type](str(value))
        for column, value in zip(columns, values, strict=True)
    )
