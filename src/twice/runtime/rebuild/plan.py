"""What a rebuild has to do: which slices are computed again, which copied, what is built already. Reads only.

Everything is read from the two tables, so the answer is the same after any crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from twice.core.ports import Target
from twice.core.scope import slices_named
from twice.core.slice import WHOLE, Slice, labels_of
from twice.core.table.rebuild import Filling, filling, in_range, of_one_slice, side_task, why_not_computed
from twice.core.table.token import token_name
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UNCHANGED, UsageError
from twice.runtime.context import RunContext
from twice.runtime.table.owner import refuse_taken
from twice.runtime.write_plan import make_write_plan


@dataclass(frozen=True)
class RebuildRequest:
    """`first` and `last`: the slices to compute again, both ends included; those outside are copied from the table.
    Without them all are computed, but for adopted ones, which are copied too unless `adopted` says otherwise. `copy`:
    none is computed; the whole table is copied. `renamed`: in copied rows, the new name of a column by its old one.
    `lose_rows`: so many rows of the table may be gone that no slice computes again."""

    first: str | None = None
    last: str | None = None
    parallel: int = 1
    adopted: bool = False
    copy: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)
    lose_rows: int = 0


@dataclass(frozen=True)
class Rebuild:
    """A task whose table is rebuilt: `aside` is the context in which its side table is filled, with a ledger of its
    own, so that nothing of it is among the task's records."""

    context: RunContext
    aside: RunContext
    task: Task

    @property
    def side_task(self) -> Task:
        return side_task(self.task)

    def target(self, session: Any) -> Target:
        return self.context.target_of(self.task.target, session)

    @property
    def patience(self) -> timedelta:
        """A run of the same slice, or a dead one's lease on it, is waited for."""
        return self.context.lease + timedelta(seconds=10)

    def token(self, label: str) -> str:
        return token_name(self.context.project.id, self.task.first_name, label)

    def side_token(self, label: str) -> str:
        return token_name(self.context.project.id, self.side_task.name, label)


@dataclass(frozen=True)
class RebuildPlan:
    """By label: `published` has the generation of each slice of the table, `filled` the number of each of the side
    table's, whose version is `side_version`. `adopted`: those of the copied or computed slices that were declared
    published by a person. `copies_all`: why the whole table is copied in one piece; None where slices are filled."""

    computed: tuple[Slice, ...]
    copied: tuple[Slice, ...]
    published: Mapping[str, int]
    filled: Mapping[str, int] = field(default_factory=dict)
    side_version: int | None = None
    adopted: tuple[str, ...] = ()
    copies_all: str | None = None

    @property
    def filling(self) -> Filling:
        return filling(self.published, self.filled)

    @property
    def left(self) -> RebuildPlan:
        """Without the slices that are filled for the generation that the table has."""
        ready = set(self.filling.ready)
        computed, copied = (tuple(s for s in some if s.label not in ready) for some in (self.computed, self.copied))
        return replace(self, computed=computed, copied=copied)


def plan_rebuild(rebuild: Rebuild, request: RebuildRequest) -> RebuildPlan:
    """Raises UsageError where the task's table cannot be rebuilt, and whatever a run of it would be refused with."""
    task, context = rebuild.task, rebuild.context
    check_request(task, request)
    first, last = _label(task, request.first), _label(task, request.last)
    with context.session() as session:
        target = rebuild.target(session)
        published, adopted = _published(rebuild, target)
        filled_at = target.published(rebuild.side_task.target, ())
        filled = _filled(rebuild, target) if filled_at.version is not None else {}
    slices = _slices(task, published)
    kept = tuple(sorted(adopted))
    why = copies_all(task, request)
    if why is not None:
        _refuse_nothing(task, published, set(published))
        return RebuildPlan((), slices, published, adopted=kept, copies_all=why)
    chosen = set(in_range(published, first, last))
    _refuse_nothing(task, published, chosen)
    # A person said that they are right: only a person has them computed again.
    chosen -= set() if request.adopted else adopted
    computed = tuple(slice_ for slice_ in slices if slice_.label in chosen)
    copied = tuple(slice_ for slice_ in slices if slice_.label not in chosen)
    _refuse_copies(task, copied, adopted)
    return RebuildPlan(computed, copied, published, filled, filled_at.version, kept)


def check_request(task: Task, request: RebuildRequest) -> None:
    """Raises UsageError for what cannot be asked of this task. Looks at no table."""
    first, last = _label(task, request.first), _label(task, request.last)
    if first is not None and last is not None and last < first:
        raise UsageError(f"--from {request.first} is after --to {request.last}", where=task.name)
    why = copies_all(task, request)
    if why is not None and (first or last or request.adopted or request.parallel > 1):
        raise UsageError(
            f"its table is copied as a whole, {why}, and no slice is computed",
            where=task.name,
            fix="Leave out --from, --to, --adopted and --parallel.",
        )


def copies_all(task: Task, request: RebuildRequest) -> str | None:
    """Why the whole table is copied and nothing computed; None where slices are computed."""
    return "as --copy says" if request.copy else f"since {why}" if (why := why_not_computed(task)) else None


def _published(rebuild: Rebuild, target: Target) -> tuple[dict[str, int], set[str]]:
    """The generation of every slice by label, and which of them are adopted: as their commits say, else the ledger."""
    task, context, prefix = rebuild.task, rebuild.context, rebuild.token("")
    refuse_missing(rebuild, target)
    tokens = {name.removeprefix(prefix): held for name, held in target.tokens(task.target, prefix).items()}
    recorded = context.ledger.runs_of(task.name, list(tokens))
    adopted: set[str] = set()
    for label, held in tokens.items():
        run = recorded.get(label)
        made = None if held.note is None else held.note.intentions.get(f"{prefix}{label}")
        if held.note is None and run is not None and run.generation == held.generation:
            made = run.intention
        if made is not None and made.adopted:
            adopted.add(label)
    return {label: held.generation for label, held in tokens.items()}, adopted


def _filled(rebuild: Rebuild, target: Target) -> dict[str, int]:
    prefix = rebuild.side_token("")
    held = target.tokens(rebuild.side_task.target, prefix)
    return {name.removeprefix(prefix): each.generation for name, each in held.items()}


def refuse_missing(rebuild: Rebuild, target: Target) -> None:
    """Raise for a table that is not there, or another task's."""
    task = rebuild.task
    held = target.published(task.target, (rebuild.token(""),))
    if held.version is None:
        raise UsageError(
            f"there is no table {task.target}, so there is nothing to rebuild",
            where=task.name,
            fix=f"Its first run makes it: twice run {task.name}.",
        )
    refuse_taken(rebuild.context.project.id, task, held.owners)


def refuse_rows_of_no_slice(rebuild: Rebuild, plan: RebuildPlan, at: int | None = None) -> None:
    """Rows that no published slice owns would be gone after the exchange. A job over the table, as it is now or at a
    version."""
    task = rebuild.task
    if task.write.layout(task.scope).slice_column is None:
        return
    with rebuild.context.session() as session:
        frame = rebuild.target(session).read(task.target, at)
        slices = make_write_plan(rebuild.context.project.id, task, (*plan.copied, *plan.computed)).slices
        engine = rebuild.context.engine
        rows = engine.count(frame, (WHOLE,))[WHOLE.label] - sum(engine.count(frame, slices).values())
    if rows:
        raise UsageError(
            f"{rows:,} row{'' if rows == 1 else 's'} of {task.target} belong to no published slice, and would be gone",
            where=task.name,
            now=UNCHANGED,
            fix=f"Publish their slices first (twice backfill {task.name} …), or delete them if nobody needs them.",
        )


def _slices(task: Task, published: Mapping[str, int]) -> tuple[Slice, ...]:
    slices = slices_named(task.scope, sorted(published))
    other = sorted(set(published) - {slice_.label for slice_ in slices})
    if other:
        raise UsageError(
            f"{task.target} holds slices that this scope does not have, such as {other[0]}",
            where=task.name,
            now=UNCHANGED,
            fix="Use the scope that they were published with, or declare a new target.",
        )
    return slices


def _label(task: Task, text: str | None) -> str | None:
    if text is None:
        return None
    if of_one_slice(task) or not isinstance(task.scope, TimeScope):
        raise UsageError(
            "this task's table is one slice: it has no range", where=task.name, fix="Leave out --from and --to."
        )
    return task.scope.slice_of(text).label


def _refuse_nothing(task: Task, published: Mapping[str, int], chosen: set[str]) -> None:
    if not published:
        raise UsageError(
            f"nothing of {task.target} was published by {task.name}, so there is nothing to rebuild",
            where=task.name,
            fix=f"Rows that were there before: twice adopt {task.target} --task {task.name}.",
        )
    if not chosen:
        raise UsageError(
            "no slice of this range is published",
            where=task.name,
            fix=f"Published are {min(published)} to {max(published)}; without a range all of them are computed again.",
        )


def _refuse_copies(task: Task, copied: tuple[Slice, ...], adopted: set[str]) -> None:
    if not copied or task.write.kind == "replace":
        return
    kept = [slice_ for slice_ in copied if slice_.label in adopted]
    why = f", and {labels_of(kept)} {'was' if len(kept) == 1 else 'were'} adopted" if kept else ""
    instead = "add --adopted" if kept else "leave out --from and --to"
    raise UsageError(
        f"{task.write.name}() writes rows of any slice, so its slices cannot be copied one by one{why}",
        where=task.name,
        now=UNCHANGED,
        fix=f"To compute all slices again: {instead}. To compute none and copy the whole table as it is: --copy.",
    )
