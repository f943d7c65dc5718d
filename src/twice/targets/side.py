"""Side tables: what is filled beside a table, to be exchanged for it, and the only tables that twice ever drops."""

from __future__ import annotations

from twice.core.table.rebuild import SIDE
from twice.core.task import TableName
from twice.core.write import ReplaceTable
from twice.errors import TableChanged


def refuse_other_names(table: TableName) -> None:
    """Whatever led here: a table that is not named as a side table is nobody's to drop."""
    if not table.name.endswith(SIDE):
        raise ValueError(f"{table.name} is not a side table: it is not dropped")


def another_side(verb: ReplaceTable) -> TableChanged:
    return TableChanged(
        f"{verb.side} was filled further, or dropped, after the exchange was planned", fix="Run the rebuild again."
    )
