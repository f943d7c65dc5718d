"""The columns of rows that a rebuild copies: their own values by name, NULL in what is new. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twice.core.ports import Frame, Shape
from twice.core.schema_change import Drift, drift, renamed_shape, why_not_copied
from twice.core.slice import Slice, labels_of
from twice.errors import UNCHANGED, UsageError
from twice.runtime.context import RunContext
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan
from twice.runtime.result.compute import compute
from twice.runtime.result.pins import Pins
from twice.runtime.write_plan import make_write_plan


@dataclass(frozen=True)
class CopiedColumns:
    """`result`: the columns of the task's result. `renamed`: the new name of a column of the table, by its old one."""

    result: Shape
    change: Drift
    renamed: Mapping[str, str] = field(default_factory=dict)

    def of(self, context: RunContext, table: Frame) -> Frame:
        return context.engine.conform(table, self.result, self.renamed)

    def __str__(self) -> str:
        """What copied rows lose and lack, for a person who is asked; empty where that is nothing."""
        parts = [f"{old} becomes {new}" for old, new in sorted(self.renamed.items())]
        empty = [column.name for column in self.change.new]
        gone = [column.name for column in self.change.missing]
        parts += [f"NULL in {', '.join(empty)}"] if empty else []
        parts += [f"without {', '.join(gone)}"] if gone else []
        return ", ".join(parts)


def copied_columns(rebuild: Rebuild, plan: RebuildPlan, renamed: Mapping[str, str]) -> CopiedColumns | None:
    """None where nothing is copied. Raises UsageError, which names the slices, for values that would be lost."""
    if not plan.copied:
        if renamed:
            raise UsageError(
                "--rename is about rows that are copied, and all of them are computed again",
                where=rebuild.task.name,
                fix="Leave it out: the task's code gives the columns their names.",
            )
        return None
    result = new_shape(rebuild, plan.computed[-1:] or plan.copied[-1:])
    with rebuild.context.session() as session:
        frame = rebuild.target(session).read(rebuild.task.target)
        held = rebuild.context.engine.shape(frame, None)[1]
    _refuse_unknown(rebuild, held, result, renamed)
    held = renamed_shape(held, renamed)
    found = CopiedColumns(result, drift(result, held), renamed)
    why = _why_not(rebuild, held, found)
    if why is not None:
        raise UsageError(
            f"{labels_of(plan.copied)} cannot be copied into the new columns: {why}",
            where=rebuild.task.name,
            now=UNCHANGED,
            fix=_way_out(plan, found),
        )
    return found


def new_shape(rebuild: Rebuild, slices: tuple[Slice, ...]) -> Shape:
    """The columns of the task's result now, from a frame that is not evaluated."""
    context, task = rebuild.context, rebuild.task
    with context.session() as session:
        plan = make_write_plan(context.project.id, task, slices)
        return compute(context, task, plan, Pins(context, session)).shape


def _why_not(rebuild: Rebuild, held: Shape, found: CopiedColumns) -> str | None:
    why, write = why_not_copied(held, found.result), rebuild.task.write
    if why is not None:
        return why
    must = {name.lower() for name in (*write.key, *([write.newest_by] if write.newest_by else []))}
    lacking = [column.name for column in found.change.new if column.name.lower() in must]
    if lacking:
        return f"{', '.join(lacking)} would be NULL, and {write.name}() finds rows by it"
    pair = found.change.renamed
    return None if pair is None else f"{pair[0].name} would be gone, and {pair[1].name} of the same type NULL"


def _way_out(plan: RebuildPlan, found: CopiedColumns) -> str:
    ways, pair = [], found.change.renamed
    if pair is not None:
        old, new = pair[0].name, pair[1].name
        ways.append(
            f"If {old} is {new} now: --rename {old}={new}. If they are two columns: rebuild without {new} first, then "
            f"add it with evolve=True."
        )
    if plan.copies_all is not None:
        return " ".join(ways) or "Give the result a type that holds every value of the table's column."
    outside = [slice_ for slice_ in plan.copied if slice_.label not in plan.adopted]
    if len(outside) < len(plan.copied):
        ways.append("To compute adopted slices again too: --adopted.")
    if outside:
        ways.append("Leave out --from and --to: all slices are computed again.")
    return " ".join(ways)


def _refuse_unknown(rebuild: Rebuild, held: Shape, result: Shape, renamed: Mapping[str, str]) -> None:
    before, after = ({column.name.lower() for column in shape.columns} for shape in (held, result))
    for old, new in renamed.items():
        if old.lower() not in before or new.lower() not in after or new.lower() in before:
            raise UsageError(
                f"--rename {old}={new}: the table must have {old} and no {new}, and the result {new}",
                where=rebuild.task.name,
                now=UNCHANGED,
            )
