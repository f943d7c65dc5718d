"""The tokens of a log's newest checkpoint, read without a JVM: for tables with more tokens than Delta lists in the
checksum file beside each commit. Needs pyarrow, and is not read without it: a job over the log answers then."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from twice.targets.delta.log.table import FORGETS_TOKENS

_WHOLE = re.compile(r"(\d{20})\.checkpoint\.parquet", re.ASCII)
"""In one file, with all that there is. Of other forms Delta is asked."""


def newest_checkpoint(folder: Path, version: int) -> int | None:
    """The version of the newest checkpoint that is not newer than this one; None if none is of one file."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names alone, of thousands
    except FileNotFoundError:
        return None
    found = [int(match[1]) for name in names if (match := _WHOLE.fullmatch(name))]
    return max((each for each in found if each <= version), default=None)


def checkpoint_tokens(folder: Path, checkpoint: int) -> dict[str, int] | None:
    """Every token of a checkpoint; None where it cannot be read here, or its table forgets tokens."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    try:
        with parquet.ParquetFile(folder / f"{checkpoint:020d}.checkpoint.parquet") as file:
            rows = file.read(columns=["txn", "metaData"], use_threads=False)
        return None if _forgets(rows) else _tokens(rows)
    except (OSError, KeyError, ValueError, pyarrow.ArrowException):
        return None  # tidied up meanwhile, or of a form that is not known here


def _tokens(rows: Any) -> dict[str, int]:
    """From the struct of each row: NULL but for the rows that are tokens."""
    tokens = rows["txn"].combine_chunks()
    names, versions = (tokens.field(name).to_pylist() for name in ("appId", "version"))
    return {name: int(version) for name, version in zip(names, versions, strict=True) if name is not None}


def _forgets(rows: Any) -> bool:
    found = [each for each in rows["metaData"].drop_null().to_pylist() if each is not None]
    if len(found) != 1:
        raise ValueError("a checkpoint describes one table")
    return FORGETS_TOKENS in dict(found[0]["configuration"] or ())
