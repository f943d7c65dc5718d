"""What is true of a table on disk, read without any of the code under test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def commits(table: Path) -> list[list[dict[str, Any]]]:
    """The actions of each commit, in order."""
    return [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted((table / "_delta_log").glob("*.json"))
    ]


def tokens(table: Path) -> list[tuple[str, int]]:
    """Every token of a slice ever written, in order: one per slice and generation."""
    written = [a["txn"] for commit in commits(table) for a in commit if "txn" in a]
    return [(token["appId"], token["version"]) for token in written if token["appId"].startswith("twice/")]


def rows(spark: Any, table: Path, where: str = "true") -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(str(table)).where(where)
    return sorted(tuple(row) for row in frame.select(*sorted(frame.columns)).collect())


def loose_files(table: Path) -> list[str]:
    """Data files of attempts that no commit has ever referred to. (Delta itself leaves an empty file where a table
    without partitions is made; its name is another.)"""
    named = {unquote(a["add"]["path"]) for commit in commits(table) for a in commit if "add" in a}
    found = {
        str(f.relative_to(table))
        for f in table.rglob("*.parquet")
        if "_delta_log" not in f.parts and f.name.startswith("twice-")
    }
    return sorted(found - named)
