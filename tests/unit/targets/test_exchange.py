"""Which Delta tables are not exchanged for their side tables, and what an exchanged one keeps. No JVM."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.targets.test_allow_list import listed, table

from twice.errors import DeclarationError
from twice.targets.delta.internal.exchange import refuse_exchange
from twice.targets.delta.log.table import Intent, Table, exchanged

STRICT = replace(table(), schema=table().schema.replace('"nullable": true', '"nullable": false', 1))


def test_a_plain_table_may_be_exchanged() -> None:
    refuse_exchange("shop.t", table())


@pytest.mark.parametrize(
    ("held", "why", "fix"),
    [
        (table(listed("clustering")), "the table uses the feature clustering", "Give the task a new target"),
        (
            table(properties={"delta.enableChangeDataFeed": "true"}),
            "enableChangeDataFeed",
            "Give the task a new target",
        ),
        (table(properties={"delta.constraints.positive": "v > 0"}), "the constraint positive", "DROP CONSTRAINT"),
        (STRICT, "NULL is not allowed in d", "DROP NOT NULL"),
    ],
)
def test_what_the_new_rows_were_not_held_against_is_refused(held: Table, why: str, fix: str) -> None:
    with pytest.raises(DeclarationError, match=why) as refused:
        refuse_exchange("shop.t", held)
    assert fix in refused.value.fix
    assert refused.value.now == "The table is unchanged."


def test_a_path_that_is_switched_off_exchanges_nothing() -> None:
    with pytest.raises(DeclarationError, match="the internal path is switched off"):
        refuse_exchange("shop.t", table(), "the internal path is switched off")


def test_an_exchanged_table_has_the_columns_of_the_side_table_and_its_own_words() -> None:
    held = table(column={"comment": "in euros"}, properties={"owner": "shop"}, partitions=())
    side = replace(table(), id="side", schema=table().schema.replace('"long"', '"string"'))
    into = Intent(exchanged(held, side), held, exchanged=True)
    assert (into.table.id, into.table.properties, into.table.partition_columns) == ("x", {"owner": "shop"}, ("d",))
    now = {"metaData": {"id": "x", "schemaString": held.schema, "partitionColumns": [], "configuration": {"a": "b"}}}
    made = json.loads(into.metadata(json.dumps(now)))["metaData"]
    assert (made["id"], made["partitionColumns"], made["configuration"]) == ("x", ["d"], {"a": "b"})
    fields = {field["name"]: field for field in json.loads(made["schemaString"])["fields"]}
    assert (fields["v"]["type"], fields["v"]["metadata"]) == ("string", {"comment": "in euros"})
