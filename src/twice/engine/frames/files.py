"""Declared files as a frame: exactly the paths that were listed, and no others that came since."""

from __future__ import annotations

import json
import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from twice.core.file_input import FileRead
from twice.errors import DeclarationError

INPUT_OPTION = "twice_files"
"""In this option of its reader a declared input of files is named: who listed them knows what they are."""

_GLOB = re.compile(r"([\\{}\[\]*?])")


def read_files(session: SparkSession, wanted: FileRead) -> DataFrame:
    """Lazy, but for files without a schema, of which Spark reads some to know their columns."""
    source = wanted.source
    reader = session.read.format(source.format).options(**source.options).option(INPUT_OPTION, wanted.name)
    if source.schema is not None:
        reader = reader.schema(_schema(source.schema))
    if wanted.base is not None:
        reader = reader.option("basePath", wanted.base)
    # Spark takes every path for a pattern.
    frame = reader.load([_GLOB.sub(r"\\\1", file.place) for file in wanted.files])
    return frame if source.path_column is None else _with_path(frame, source.path_column, wanted)


def _schema(text: str) -> StructType | str:
    return StructType.fromJson(json.loads(text)) if text.lstrip().startswith("{") else text


def _with_path(frame: DataFrame, column: str, wanted: FileRead) -> DataFrame:
    """The path as it is in the records: from the project's folder on."""
    if any(name.lower() == column.lower() for name in frame.columns):
        raise DeclarationError(
            f"the files of {wanted.name} have a column {column} of their own", fix="Give path_column= another name."
        )
    # Spark writes paths as URIs here, where + stands for itself.
    uri = sf.regexp_replace(sf.col("_metadata.file_path"), r"^file:/*", "/")
    path = sf.url_decode(sf.replace(uri, sf.lit("+"), sf.lit("%2B")))
    root = wanted.root.rstrip("/") + "/"
    inside = sf.when(sf.startswith(path, sf.lit(root)), sf.substring(path, len(root) + 1, 2**31 - 1)).otherwise(path)
    return frame.withColumn(column, inside)
