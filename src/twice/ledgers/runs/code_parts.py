"""What the code of published slices was made of, part by part: once per code hash of a task.

It is only for people: without it a reason says that the code changed, and not which part of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    select,
    tuple_,
)

from twice.core.ledger.code_parts import CodeParts
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OF_FENCE
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import NAME, attempts, insert_in, metadata, runs, slices
from twice.ledgers.database.transactions import Records

code_parts = Table(
    "twice_code_parts",
    metadata,
    Column("task", NAME, nullable=False),
    Column("code_hash", Text, nullable=False),
    Column("parts", Text, nullable=False),
    PrimaryKeyConstraint("task", "code_hash", name="twice_code_parts_pk"),
    CheckConstraint("task <> '' AND code_hash <> ''", name="twice_code_parts_named"),
)

_KEY = tuple_(code_parts.c.task, code_parts.c.code_hash)


class SqlCodeParts(Records):
    """See `core.ports.CodeRecords`."""

    @retrying_outages
    def code_parts(self, task: str, codes: Sequence[str]) -> Mapping[str, CodeParts]:
        with self._reading() as connection:
            found: dict[str, CodeParts] = {}
            for some in in_parts(codes):
                mine = self._own.of(code_parts.c.task, task)
                for row in connection.execute(select(code_parts).where(mine, code_parts.c.code_hash.in_(some))):
                    found[row.code_hash] = json.loads(row.parts)
            return found


def keep_parts(connection: Connection, fence: int, known: Mapping[str, CodeParts]) -> None:
    """Of the code of an attempt at its task. What is there already stays: a hash has one set of parts."""
    rows = [{OF_FENCE.key: fence, "code": code, "held": json.dumps(parts)} for code, parts in known.items() if parts]
    if rows:
        connection.execute(_keeping(connection.dialect.name), rows)


@cache
def _keeping(dialect: str) -> Any:
    given = select(attempts.c.task, bindparam("code", type_=Text), bindparam("held", type_=Text))
    of_attempt = given.where(attempts.c.fence == OF_FENCE)
    return (
        insert_in(dialect, code_parts).from_select(["task", "code_hash", "parts"], of_attempt).on_conflict_do_nothing()
    )


def drop_parts(connection: Connection, which: ColumnElement[bool], most: int) -> int:
    """Delete so many of these at most; how many it were."""
    some = select(*_KEY.clauses).where(which).order_by(*_KEY.clauses).limit(most)
    keys = [tuple(row) for row in connection.execute(some)]
    if keys:
        connection.execute(delete(code_parts).where(_KEY.in_(keys)))
    return len(keys)


def is_unused() -> ColumnElement[bool]:
    """Of code that no published slice has, and no attempt that is on record. Each table is read once for it, not once
    for each code."""
    codes = (
        select(table.c.task, table.c.code_hash).where(table.c.code_hash.is_not(None)).distinct()
        for table in (runs, slices)
    )
    return and_(*(_KEY.not_in(each) for each in codes))
