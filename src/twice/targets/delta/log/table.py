"""What a Delta table is, read from its log, and whether the internal path may write it. Pure but for types.

The internal path is taken only for what is on the lists below. Anything else (column mapping, generated or
identity columns, row tracking, clustering, change data feed, catalog-managed commits, whatever comes next) is
written by Delta's public API, which knows what it means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import StructType

from twice.core.names.spark import type_text
from twice.core.ports import Column, Shape
from twice.targets.grain import MARK

FEATURES = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
PROPERTIES = frozenset(
    {
        "delta.autoOptimize.autoCompact",  # the run's session says no, and the session wins
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "delta.parquet.compression.codec",
    }
)
OFF = {"delta.appendOnly": "false", "delta.columnMapping.mode": "none", "delta.enableChangeDataFeed": "false"}
MANAGED = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits", "coordinatedCommits-preview"})
"""Their commits are not files of their own log."""
FORGETS_TOKENS = "delta.setTransactionRetentionDuration"

# What a protocol version means without a list of features.
_BY_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_LISTED = 7
_CONSTRAINT = "delta.constraints."
_NAME_IN_LOG = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class Table:
    """One version of a table, without its files. `names_in_log`: by column, where the log has another name for it."""

    id: str
    version: int
    shape: Shape
    partition_columns: tuple[str, ...]
    grain: str | None
    features: frozenset[str]
    properties: Mapping[str, str]
    column_properties: frozenset[str]
    schema: str
    names_in_log: Mapping[str, str]

    def in_log(self, column: str) -> str:
        """The name that files have for a column: in their partition values, statistics and folders."""
        return self.names_in_log.get(column, column)

    @property
    def slice_type(self) -> str | None:
        for column in self.shape.columns:
            if column.name == self.shape.partitioned_by:
                return column.type
        return None

    def same_columns(self, other: Table) -> bool:
        """Whether files staged for one version still fit the other."""
        return self.id == other.id and self.alike(other)

    def alike(self, other: Table) -> bool:
        """The same, of two tables that may be different ones. Constraints count: they are enforced while files are
        written, so that rows staged before one was added were never held against it."""
        ours, theirs = (
            (each.partition_columns, each.features, each.constraints, json.loads(each.schema)) for each in (self, other)
        )
        return ours == theirs

    @property
    def constraints(self) -> dict[str, str]:
        """By name. What a column itself refuses (NULL, an invariant) is in the schema."""
        return {name: value for name, value in self.properties.items() if name.startswith(_CONSTRAINT)}


@dataclass(frozen=True)
class Intent:
    """A table as a commit will leave it. `before`: as it was when this was decided (None: there was none). `made`:
    Delta's JSON of the metadata of a table that is to be made. `added`: the columns that are new, as the log writes
    them. `exchanged`: all its columns and partitions are those of `table`."""

    table: Table
    before: Table | None
    made: str | None = None
    added: tuple[Mapping[str, Any], ...] = ()
    exchanged: bool = False

    def metadata(self, now: str) -> str:
        """Delta's JSON of what the commit makes of the table that it finds (`now`: Delta's JSON of that one). Only
        columns are added: whatever else others changed since this was decided stays."""
        if self.made is not None:
            return self.made
        changed: dict[str, Any] = json.loads(now)
        if self.exchanged:
            changed["metaData"]["schemaString"] = self.table.schema
            changed["metaData"]["partitionColumns"] = list(self.table.partition_columns)
            return json.dumps(changed)
        changed["metaData"]["schemaString"] = _wider(changed["metaData"]["schemaString"], self.added)
        return json.dumps(changed)

    def is_there(self, now: Table) -> bool:
        """Whether the table is so by now: it was, or somebody else came to the same."""
        return self.table.alike(now) if self.before is None else self.table.same_columns(now)


def table_of(version: int, protocol: str, metadata: str) -> Table:
    """From the JSON of the log's protocol and metadata actions."""
    body: dict[str, Any] = json.loads(metadata)["metaData"]
    schema = StructType.fromJson(json.loads(body["schemaString"]))
    partition_columns = tuple(body.get("partitionColumns") or ())
    single = partition_columns[0] if len(partition_columns) == 1 else None
    grains = [(field.metadata or {}).get(MARK) for field in schema.fields if field.name == single]
    return Table(
        id=str(body["id"]),
        version=version,
        shape=Shape(_columns(schema), single),
        partition_columns=partition_columns,
        grain=grains[0] if grains else None,
        features=_features(json.loads(protocol)["protocol"]),
        properties=dict(body.get("configuration") or {}),
        column_properties=frozenset(key for field in schema.fields for key in field.metadata or {}),
        schema=body["schemaString"],
        names_in_log={field.name: (field.metadata or {}).get(_NAME_IN_LOG, field.name) for field in schema.fields},
    )


def wider(table: Table, fields: Sequence[Mapping[str, Any]]) -> Table:
    """A table with more columns (as the log writes them) behind its own."""
    schema = _wider(table.schema, fields)
    columns = _columns(StructType.fromJson(json.loads(schema)))
    return replace(table, shape=Shape(columns, table.shape.partitioned_by), schema=schema)


def exchanged(table: Table, side: Table) -> Table:
    """A table with the columns and partitions of another: what is said of a column that stays is kept."""
    comments = {
        field["name"].lower(): field["metadata"]["comment"]
        for field in json.loads(table.schema)["fields"]
        if "comment" in field.get("metadata", {})
    }
    schema = json.loads(side.schema)
    for field in schema["fields"]:
        if field["name"].lower() in comments:
            field["metadata"]["comment"] = comments[field["name"].lower()]
    return replace(
        side,
        id=table.id,
        version=table.version,
        features=table.features,
        properties=table.properties,
        schema=json.dumps(schema, separators=(",", ":")),
    )


def why_untouchable(table: Table) -> str | None:
    """Why not even a token may be written to this table's log; None if it may."""
    managed = sorted(table.features & MANAGED)
    return f"the table uses the feature {managed[0]}: its commits belong to a catalog" if managed else None


def why_public(table: Table, by_slice: bool = True) -> str | None:
    """The first reason not to write this table by the internal path; None if there is none.
    `by_slice`: whether files are chosen by their partition."""
    unknown = sorted(table.features - FEATURES)
    if unknown:
        return f"the table uses the feature {unknown[0]}"
    for name, value in sorted(table.properties.items()):
        if not _harmless(name, value):
            return f"the table has the property {name} = {value}"
    for name in sorted(table.column_properties):
        if (name.startswith("delta.") and name != "delta.invariants") or name in ("CURRENT_DEFAULT", "EXISTS_DEFAULT"):
            return f"a column has the property {name}"
    if by_slice and len(table.partition_columns) > 1:
        return "the table is partitioned by several columns"
    return None


def slices_by_condition(table: Table | None, column: str) -> bool:
    """Whether the rows of a slice are found by the values of a column that is no partition column: in a table that only
    Delta's public calls may write, `replaceWhere` does that. A plain one is better partitioned: there every file that
    has a row of the slice would be written again (decision 0029)."""
    if table is None or why_public(table, by_slice=False) is None:
        return False
    partitions = {name.lower() for name in table.partition_columns}
    return column.lower() not in partitions and any(c.name.lower() == column.lower() for c in table.shape.columns)


def _wider(schema: str, fields: Sequence[Mapping[str, Any]]) -> str:
    changed = json.loads(schema)
    changed["fields"] += fields
    return json.dumps(changed, separators=(",", ":"))


def _columns(schema: StructType) -> tuple[Column, ...]:
    return tuple(Column(field.name, type_text(field.dataType)) for field in schema.fields)


def _harmless(name: str, value: str) -> bool:
    if not name.startswith("delta."):
        return True  # Delta gives no meaning to names that are not its own
    if name.startswith(_CONSTRAINT):
        return True  # enforced while the files are written
    if name.startswith("delta.feature."):
        return name.removeprefix("delta.feature.") in FEATURES
    return name in PROPERTIES or OFF.get(name) == value.lower()


def _features(protocol: Mapping[str, Any]) -> frozenset[str]:
    named = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if protocol["minWriterVersion"] < _LISTED:
        for version, features in _BY_WRITER.items():
            named |= set(features) if version <= protocol["minWriterVersion"] else set()
        named |= {"columnMapping"} if protocol["minReaderVersion"] >= 2 else set()
    return frozenset(named)
