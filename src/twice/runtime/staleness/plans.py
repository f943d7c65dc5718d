"""What slices depend on beside their tables: files, constants, functions, which are in no log. Their query plans show
it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from twice.core.ledger.record import NO_LEAVES, RECIPE, InputRecord
from twice.core.lineage import DECLARED, EARLIER, NOT_WATCHED, has_plan, source_name
from twice.core.ports import FUNCTION, PLAN, Leaf, NeedsEngine
from twice.core.slice import Slice
from twice.core.table.token import Intention
from twice.core.task import Task
from twice.errors import TwiceError
from twice.runtime.context import RunContext
from twice.runtime.result.compute import Computed, compute
from twice.runtime.result.pins import Pins
from twice.runtime.staleness.decide import SliceState, difference, rerun_of
from twice.runtime.write_plan import make_write_plan

_HARMLESS = frozenset({"literal", "rows"})
"""Leaves that are the same whenever the code and the pinned tables are."""


class Plans(Protocol):
    """Is what a slice depends on beside its tables what it was? Of what its query plan alone would show."""

    def asked(self, task: Task) -> bool:
        """Whether it matters for this task."""

    def reason(
        self, slice_: Slice, held: Sequence[InputRecord], published: Intention, tables: frozenset[str]
    ) -> str | None:
        """Why a slice, whose tables are as they were, is stale all the same; None if it is not. `tables`: what leaves
        of plans call the tables whose logs were read."""


def outside(leaves: Iterable[InputRecord | Leaf], tables: frozenset[str]) -> frozenset[tuple[str, str | None]]:
    """The leaves that belong to none of the pinned tables: no log has their changes. Declared files and values are
    compared by themselves."""
    return frozenset(
        (leaf.kind, leaf.identity)
        for leaf in leaves
        if leaf.kind not in _HARMLESS | DECLARED | NO_LEAVES and leaf.name not in tables
    )


class BuiltPlans:
    """What slices depend on beside their tables, from plans that are built when they are asked for."""

    def __init__(self, context: RunContext, task: Task) -> None:
        self._context, self._task = context, task
        self._one: Computed | None = None

    def asked(self, task: Task) -> bool:
        """What stays whatever it is made of needs no plan."""
        return rerun_of(task) == "when_changed"

    def reason(
        self, slice_: Slice, held: Sequence[InputRecord], published: Intention, tables: frozenset[str]
    ) -> str | None:
        beside = outside(held, tables)
        try:
            if not has_plan(held) and has_plan(self._leaves(slice_)):
                return EARLIER
            alike = self._task.sql is not None or not self._task.takes_run
            if not beside or (alike and outside(self._leaves(slice_), tables) == beside):
                return None
            computed = self._computed(slice_)
        except TwiceError as error:
            return f"its plan cannot be made now: {error.what}"
        present, because = computed.to_compare(slice_.label), computed.because.get(slice_.label)
        return difference(SliceState(slice_.label, 1, published, present, because))

    def _leaves(self, slice_: Slice) -> tuple[Leaf, ...]:
        """Those of one slice: of this one, unless another was asked for before."""
        self._one = self._one or self._computed(slice_)
        (leaves,) = self._one.leaves.values()
        return leaves

    def _computed(self, slice_: Slice) -> Computed:
        plan = make_write_plan(self._context.project.id, self._task, (slice_,))
        with self._context.session() as session:
            return compute(self._context, self._task, plan, Pins(self._context, session))


@dataclass(frozen=True)
class SameRecipe:
    """What the task's function makes its plan of is what it was: so is the plan, which need not be made. `not_watched`:
    the task's tables whose changes make no slice stale."""

    recipe: str
    not_watched: frozenset[str] = frozenset()

    @classmethod
    def of(cls, context: RunContext, task: Task) -> SameRecipe | None:
        """None where nothing shows what the function makes its plan of."""
        recipe = context.recipe(task)
        located = context.project.located
        not_watched = frozenset(str(located(each.table)) for each in task.tables.values() if not each.watch)
        return None if recipe is None else cls(recipe, not_watched)

    def asked(self, task: Task) -> bool:  # noqa: ARG002 - also of what stays: that it differs is said by the full way
        return True

    def reason(
        self, slice_: Slice, held: Sequence[InputRecord], published: Intention, tables: frozenset[str]
    ) -> str | None:
        """None, or NeedsEngine: what differs, only the plan can say."""
        made = {record.identity for record in held if record.kind == RECIPE}
        if made != {self.recipe}:
            raise NeedsEngine(f"{slice_.label} was not published, or found right, by the function as it is now")
        beside = outside((record for record in held if not self._is_ignored(record)), tables)
        unknown = sorted(kind for kind, _ in beside if kind not in (PLAN, FUNCTION))
        of_catalog = any(record.kind == FUNCTION and "of the catalog" in record.name for record in held)
        if unknown or of_catalog or not has_plan(held) or published.inputs is None:
            raise NeedsEngine(f"{slice_.label} reads what no log knows: {', '.join(unknown) or 'the catalog'}")
        return None

    def _is_ignored(self, record: InputRecord) -> bool:
        """A server's table that is not watched: another snapshot of it is read each time, and none of them counts."""
        return record.identity == NOT_WATCHED and f"{record.kind}:{source_name(record.name)}" in self.not_watched
