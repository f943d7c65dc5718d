"""Words the rules share, so that one thing is always called the same."""

from __future__ import annotations

from twice.lint.facts import Place, WriteFact
from twice.lint.file_facts import FileFacts

SAFE = frozenset(
    {
        "conflict_clause", "anti_join", "delete_before", "fresh", "temporary", "upsert_store", "partition_decorator",
        "once_option", "first_chunk_replaces", "looked_first", "log",
    }
)  # fmt: skip
"""Guards that make an added row safe, or harmless, to add again."""


def target_of(write: WriteFact, otherwise: str = "the target") -> str:
    """The table or path in backticks; `otherwise` when its name is not known."""
    name = write.target
    return f"`{name}`" if name and len(name) < 80 and name.strip("{}") else otherwise


def table_for(write: WriteFact) -> str:
    """A name for the twice declaration."""
    name = write.target
    plain = name.replace(".", "").replace("_", "").replace("-", "")
    return name if name and plain.isalnum() else "schema.table"


def replaces(write: WriteFact) -> str:
    return f'@task("{table_for(write)}", scope=Daily("<date column>", start=…), inputs=…, write=replace())'


def merges(write: WriteFact) -> str:
    key = ", ".join(f'"{column}"' for column in write.key) or '"<key>"'
    return f'@task("{table_for(write)}", scope=…, inputs=…, write=merge(key=[{key}], newest_by="<version>"))'


def is_only_shown(file: FileFacts, place: Place) -> bool:
    """A query of a script that nothing stores: its columns go to a screen."""
    return file.language == "sql" and "query" in place.within


def is_spark(file: FileFacts, write: WriteFact) -> bool:
    return write.engine in ("spark", "hive", "databricks") or ("spark" in file.traits and write.engine == "sql")
