"""Which rows of the table the exchange takes away. Where rows are found by their keys, no slice owns any: a row that
was there before twice, or whose inputs are gone, is not computed again, and would be gone without a word."""

from __future__ import annotations

from twice.core.ports import Frame, Shape
from twice.core.results.summary import counted
from twice.core.schema_change import why_not_copied
from twice.core.slice import WHOLE
from twice.core.write import Kept, may_delete
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan
from twice.runtime.write_plan import make_write_plan


def refuse_lost_keys(
    rebuild: Rebuild, plan: RebuildPlan, at: int | None, side_at: int | None, lose_rows: int
) -> Kept | None:
    """What may go, for the target to hold to at the last moment; None where every row is a slice's. Raises UsageError
    if the table, at its version, has more rows than `lose_rows` whose key the side table, at its own, does not have.
    A job over both."""
    context, task = rebuild.context, rebuild.task
    layout = task.write.layout(task.scope)
    write = make_write_plan(context.project.id, task, (*plan.copied, *plan.computed))
    if layout.slice_column is not None:
        return Kept(owned=write.slices)
    if task.write.kind != "upsert" or may_delete(write.write):
        return None
    with context.session() as session:
        target = rebuild.target(session)
        table, side = target.read(task.target, at), target.read(rebuild.side_task.target, side_at)
        names = _compared(context, table, side, layout.key)
        lost = context.engine.lost(table, side, names) if names else context.engine.count(table, (WHOLE,))[WHOLE.label]
    if lost > lose_rows:
        raise _refusal(rebuild, lost, "" if names else ", ".join(layout.key))
    return Kept(key=names, lost=lose_rows)


def _compared(context: RunContext, table: Frame, side: Frame, key: tuple[str, ...]) -> tuple[str, ...]:
    """The key, if every value that the table has in it is one of the side table's type; else nothing."""
    shapes = (context.engine.shape(frame, None)[1] for frame in (table, side))
    names = {name.lower() for name in key}
    old, new = (Shape(tuple(each for each in shape.columns if each.name.lower() in names)) for shape in shapes)
    there = {each.name.lower() for each in old.columns}
    return key if names <= there and why_not_copied(old, new) is None else ()


def _refusal(rebuild: Rebuild, lost: int, other: str) -> UsageError:
    task = rebuild.task
    what = f"{counted(lost, 'row')} of {task.target} {'has a key' if lost == 1 else 'have keys'} that no slice computes"
    if other:
        what = f"its key, {other}, is of other columns or types now, so none of the {counted(lost, 'row')} of "
        what += f"{task.target} can be found among the new ones"
    return UsageError(
        f"{what}{'' if other else ' again, and would be gone'}",
        where=task.name,
        now="The table is unchanged; the copy that is being built stays.",
        fix="They may be older than its slices, or what they were made from is gone. To keep them, copy all rows as "
        f"they are: twice rebuild {task.name} --copy. If nobody needs them: twice rebuild {task.name} --lose-rows "
        f"{lost}.",
    )
