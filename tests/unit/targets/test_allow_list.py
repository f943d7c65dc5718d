"""Whatever is not on the list is written by Delta's public API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from twice.core.ports import Column, Shape
from twice.targets.delta.log.table import Table, table_of, why_public


def table(
    protocol: dict[str, Any] | None = None,
    properties: dict[str, str] | None = None,
    column: dict[str, Any] | None = None,
    partitions: tuple[str, ...] = ("d",),
) -> Table:
    fields = [
        {"name": "d", "type": "date", "nullable": True, "metadata": {"twice.partitions": "day"}},
        {"name": "v", "type": "long", "nullable": True, "metadata": column or {}},
    ]
    metadata = {
        "id": "x",
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partitions),
        "configuration": properties or {},
    }
    stated = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
    return table_of(3, json.dumps({"protocol": stated}), json.dumps({"metaData": metadata}))


def listed(*features: str) -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": list(features)}


def test_a_plain_table_takes_the_internal_path() -> None:
    plain = table()
    assert why_public(plain) is None
    assert plain.shape == Shape((Column("d", "date"), Column("v", "bigint")), "d")
    assert (plain.version, plain.grain, plain.slice_type) == (3, "day", "date")


@pytest.mark.parametrize(
    "known",
    [
        table(listed("appendOnly", "invariants", "deletionVectors", "timestampNtz")),
        table(properties={"delta.logRetentionDuration": "interval 60 days", "owner": "shop"}),
        table(properties={"delta.constraints.positive": "v > 0", "delta.enableChangeDataFeed": "false"}),
        table({"minReaderVersion": 1, "minWriterVersion": 3}),
        table(column={"delta.invariants": "{}", "comment": "words"}),
    ],
)
def test_what_is_understood_takes_the_internal_path(known: Table) -> None:
    assert why_public(known) is None


@pytest.mark.parametrize(
    ("unusual", "why"),
    [
        (table(listed("appendOnly", "catalogManaged")), "catalogManaged"),
        (table(listed("somethingNew")), "somethingNew"),
        (table({"minReaderVersion": 1, "minWriterVersion": 4}), "changeDataFeed"),
        (table({"minReaderVersion": 2, "minWriterVersion": 5}), "changeDataFeed"),
        (table({"minReaderVersion": 1, "minWriterVersion": 6}), "changeDataFeed"),
        (table(properties={"delta.enableChangeDataFeed": "true"}), "delta.enableChangeDataFeed = true"),
        (table(properties={"delta.appendOnly": "true"}), "delta.appendOnly = true"),
        (table(properties={"delta.columnMapping.mode": "name"}), "delta.columnMapping.mode"),
        (table(properties={"delta.randomizeFilePrefixes": "true"}), "randomizeFilePrefixes"),
        (table(properties={"delta.notYetInvented": "1"}), "delta.notYetInvented"),
        (table(properties={"delta.feature.rowTracking": "supported"}), "rowTracking"),
        (table(column={"delta.generationExpression": "year(d)"}), "generationExpression"),
        (table(column={"CURRENT_DEFAULT": "7"}), "CURRENT_DEFAULT"),
        (table(column={"delta.identity.start": 1}), "identity"),
        (table(partitions=("d", "v")), "several columns"),
    ],
)
def test_anything_unknown_takes_the_public_path(unusual: Table, why: str) -> None:
    assert why in str(why_public(unusual))
