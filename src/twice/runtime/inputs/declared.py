"""Have the declared files and values of a published slice changed? Asked without a query plan, so without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from twice.core.ledger.record import InputRecord
from twice.core.lineage import as_published, declared_change
from twice.core.ports import Leaf
from twice.core.slice import Slice
from twice.core.task import Task
from twice.errors import TwiceError
from twice.runtime.inputs.files import list_input
from twice.runtime.inputs.params import load_param
from twice.runtime.inputs.places import Places


class DeclaredInputs:
    """The files and values of a task as they are now. Values are read once, files are listed for each slice."""

    def __init__(self, places: Places, task: Task) -> None:
        self._places, self._task = places, task

    def change(self, slice_: Slice, held: Sequence[InputRecord]) -> str | None:
        """Why what a slice was published from is not what is there now; None if it is all the same, or there is
        none."""
        if not self._task.files and not self._task.params:
            return None
        before = [Leaf(record.kind, record.name, record.identity) for record in held]
        try:
            listings = [list_input(self._places, self._task, name, (slice_,)) for name in self._task.files]
            values = self._params
        except TwiceError as error:
            return f"it cannot be computed now: {error.what}"
        now = (*(leaf for each in listings for leaf in each.leaves(slice_.label)), *values)
        ignored = frozenset(name for each in listings for name in each.not_watched)
        return declared_change(as_published(now, before, ignored), before)

    @cached_property
    def _params(self) -> tuple[Leaf, ...]:
        return tuple(load_param(self._places, name, each).leaf for name, each in self._task.params.items())
