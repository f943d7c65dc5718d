"""What a table that was made elsewhere is like for a task: taken as it is, or only in another layout. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twice.core.ports import PreparedTable, Published, Shape, Target
from twice.core.results.summary import counted
from twice.core.schema_change import drift, why_not_copied
from twice.core.since import Since
from twice.core.slice import WHOLE, Slice, labels_of
from twice.core.table.owner import LAST_TAKEOVER, last_cut_token, owner_of
from twice.core.table.token import token_name
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UNCHANGED, LayoutDiffers, SchemaDrift, UsageError
from twice.runtime.context import RunContext
from twice.runtime.result.compute import compute
from twice.runtime.result.pins import Pins
from twice.runtime.table.owner import refuse_taken
from twice.runtime.write_plan import layout_of, make_write_plan


@dataclass(frozen=True)
class Found:
    """What a table is like for a task. `why`: why it must be partitioned otherwise; None where it is taken as it is.
    `slices`: those to be declared published, `already` those that are, `empty` those of them without rows. `version` is
    the table's at this look, and `tokens` has the generations that an adoption must find where they were, by name."""

    rows: int
    slices: tuple[Slice, ...]
    already: tuple[str, ...]
    empty: tuple[str, ...]
    why: str | None
    shape: Shape
    into: PreparedTable | None = None
    version: int | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)


def examine(context: RunContext, task: Task, published: str | None) -> Found:
    """Changes nothing. Raises what a run of the task would be refused with, but for a layout that does not do."""
    slices = slices_of(task, published)
    with context.session() as session:
        target = context.target_of(task.target, session)
        names, watched = names_of(context, task, slices), watched_by(context, task)
        held = target.published(task.target, (*names, *watched))
        if held.version is None:
            raise UsageError(
                f"there is no table {task.target}, so there is nothing to adopt",
                where=task.name,
                fix=f"Its first run makes it: twice run {task.name}.",
            )
        refuse_taken(context.project.id, task, held.owners)
        shape = _result_shape(context, task, session, slices)
        why, into = _fitted(context, task, target, shape)
        found = replace(_found(context, task, held, slices), why=why, shape=shape, into=into)
        # Once it is laid out again, what was published of it is read by these: none may have moved.
        prefix = token_name(context.project.id, task.first_name, "")
        others = target.tokens(task.target, prefix) if why is not None else {}
        tokens = {**{name: each.generation for name, each in others.items()}, **held.generations}
        return _counted(context, task, target, replace(found, version=held.version, tokens=tokens))


def slices_of(task: Task, published: str | None) -> tuple[Slice, ...]:
    """The slices of a range such as `2026-01-01..2026-06-09`, both ends included; of one date, or `all`."""
    if published is None:
        return ()
    if isinstance(task.scope, Since):
        raise UsageError(
            "an incremental task has no slices to declare published: it goes on from its mark",
            where=task.name,
            fix="Give the last value that was loaded as initial= of its scope.",
        )
    if not isinstance(task.scope, TimeScope):
        return (task.scope.only,)
    first, _, last = published.partition("..")
    low, high = task.scope.slice_of(first.strip()), task.scope.slice_of((last or first).strip())
    if high.start < low.start:
        raise UsageError(f"--published {published}: the first slice is after the last", where=task.name)
    return tuple(task.scope.through(low, high))


def names_of(context: RunContext, task: Task, slices: Sequence[Slice]) -> tuple[str, ...]:
    me = owner_of(context.project.id, task)
    return (f"twice-adopt/{me.project}/{me.task}", *(token_name(me.project, me.task, each.label) for each in slices))


def watched_by(context: RunContext, task: Task) -> tuple[str, ...]:
    """The tokens that say whose the table is, and how its slices are cut."""
    return (LAST_TAKEOVER, last_cut_token(owner_of(context.project.id, task)))


def describe(found: Found) -> str:
    """What adopting would do, for a person who is asked."""
    how = (
        "takes the table as it is"
        if found.why is None
        else f"rewrites its {counted(found.rows, 'row')} with the right partitioning ({found.why})"
    )
    slices = (
        f"declares {labels_of(found.slices)} published as they are" if found.slices else "declares no slice published"
    )
    empty = f" ({counted(len(found.empty), 'of them has', 'of them have')} no rows)" if found.empty else ""
    return f"{how}, and {slices}{empty}"


def _fitted(
    context: RunContext, task: Task, target: Target, shape: Shape
) -> tuple[str, None] | tuple[None, PreparedTable]:
    """The table as a publish would leave it; or why it must be partitioned otherwise for that."""
    layout = layout_of(context.project.id, task)
    try:
        return None, target.prepare(task.target, shape, layout, task.policy.evolve)
    except LayoutDiffers as error:
        why = error.what
    except SchemaDrift as drifted:
        try:  # with new columns, such as that of the slices, it may be a matter of its layout still
            target.prepare(task.target, shape, layout, True)
        except LayoutDiffers as error:
            why = error.what
        else:
            raise drifted from None
    _refuse_other_columns(context, task, target, shape)
    return why, None


def _found(context: RunContext, task: Task, held: Published, slices: Sequence[Slice]) -> Found:
    names = {slice_.label: name for slice_, name in zip(slices, names_of(context, task, slices)[1:], strict=True)}
    already = tuple(label for label, name in names.items() if held.generations[name])
    left = tuple(slice_ for slice_ in slices if slice_.label not in already)
    return Found(0, left, already, (), None, Shape(()))


def _counted(context: RunContext, task: Task, target: Target, found: Found) -> Found:
    """A job over the table: how many rows it has, and which of the slices have none."""
    frame, engine = target.read(task.target), context.engine
    rows = engine.count(frame, (WHOLE,))[WHOLE.label]
    slices = make_write_plan(context.project.id, task, found.slices).slices if found.slices else ()
    column = task.write.layout(task.scope).slice_column
    names = {each.name.lower() for each in engine.shape(frame, None)[1].columns}
    if not slices or column is None or column.name.lower() not in names:
        return replace(found, rows=rows)
    counts = engine.count(frame, slices)
    return replace(found, rows=rows, empty=tuple(label for label, count in counts.items() if not count))


def _result_shape(context: RunContext, task: Task, session: Any, slices: Sequence[Slice]) -> Shape:
    """The columns of the task's result, from a frame that is not evaluated."""
    scope = task.scope
    some = tuple(slices[-1:]) or ((scope.first,) if isinstance(scope, TimeScope) else (scope.only,))
    return compute(context, task, make_write_plan(context.project.id, task, some), Pins(context, session)).shape


def _refuse_other_columns(context: RunContext, task: Task, target: Target, shape: Shape) -> None:
    """Every column of the table must have its place in the new layout, and its values must fit it."""
    held = context.engine.shape(target.read(task.target), None)[1]
    lost = [column.name for column in drift(shape, held).missing]
    why = f"the result does not give {', '.join(lost)}" if lost else why_not_copied(held, shape)
    if why is not None:
        raise UsageError(
            f"{task.target} cannot be adopted: {why}",
            where=task.name,
            now=UNCHANGED,
            fix="Give the result the table's columns and types first; once it is adopted, twice rebuild changes them.",
        )
