"""What the memory target refuses: a table or rows that do not fit, and a stage that is not what it was."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.ports import Shape, Staged
from twice.core.slice import Slice, labels_of
from twice.core.task import TableName
from twice.core.time_scope import SliceColumn
from twice.errors import DeclarationError, RowsOutsideSlice, StageLost, StageMismatch
from twice.targets.grain import check_grain, check_partitioning, check_values
from twice.targets.memory.tables import Intent, MemoryFile, StoredTable, inside


def partition_column(shape: Shape, slice_column: SliceColumn | None) -> str | None:
    if slice_column is None:
        return None
    for column in shape.columns:
        if column.name.lower() == slice_column.name.lower() and column.type == slice_column.type:
            return column.name
    raise DeclarationError(
        f"the result has no {slice_column.type} column {slice_column.name}",
        fix="Keep the scope's column in the result.",
    )


def check_partitions(table: TableName, held: StoredTable, slice_column: SliceColumn | None) -> None:
    held_by = held.shape.partitioned_by
    check_partitioning(table.name, () if held_by is None else (held_by,), slice_column)
    if slice_column is not None:
        check_grain(table.name, held.mark, slice_column)
        check_values(table.name, held.mark, (file.value for file in held.versions[-1].files), slice_column)


def count_rows(files: Sequence[MemoryFile], slices: Sequence[Slice]) -> dict[str, int]:
    counts = {slice_.label: 0 for slice_ in slices}
    for file in files:
        for slice_ in slices:
            if inside(file.value, [slice_]):
                counts[slice_.label] += len(file.rows)
                break
        else:
            labels = labels_of(slices)
            raise RowsOutsideSlice(
                f"the result has rows outside {labels}, e.g. with the value {file.value or 'NULL'}",
                fix="Filter the result to its slice.",
            )
    return counts


def check_staged(staged: Staged, kept: tuple[MemoryFile, ...] | None) -> None:
    if kept != staged.handle.files:
        raise StageLost("the staged rows are gone", fix="Run the task again.")
    count_rows(staged.handle.files, staged.plan.slices)


def check_unchanged(into: Intent, now: Shape | None) -> None:
    """Rows staged for other columns must not enter the table, whoever made or changed it meanwhile."""
    if now not in (into.before, into.shape):
        raise StageMismatch(
            "the table was made or changed by someone else while this run was at work", fix="Run the task again."
        )
