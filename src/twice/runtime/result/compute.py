"""From declared inputs to a lazy result frame: pinned, cut to the slice, computed by user code, inspected.

Nothing here writes and no job over the data runs: dying anywhere leaves every table as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twice.core.failure.user_code import USER_CODE_FAILS
from twice.core.ledger.record import NO_LEAVES, RECIPE, TABLE, InputRecord
from twice.core.lineage import InputChange, as_published, inputs_hash, not_watched, what_changed
from twice.core.ports import ALL_ROWS, ALLOWED, FUNCTION, INPUT_FILES, Column, Frame, Leaf, Shape, Suspicion
from twice.core.since import Window
from twice.core.slice import Slice
from twice.core.table.rebuild import why_not_computed
from twice.core.table.token import Intention
from twice.core.task import RUN_PARAMETER, TableName, Task
from twice.core.time_scope import TimeScope
from twice.core.write import WritePlan
from twice.errors import DeclarationError, Nondeterministic, SchemaDrift, TwiceError, UserCodeError, followed_by
from twice.runtime.context import RunContext
from twice.runtime.result.pins import Pin, Pins, open_input


@dataclass(frozen=True)
class Run:
    """What a function with a parameter `run` gets. `slice`: the slice to compute; in a batch of a backfill the last
    of `slices`. `spark`: the run's own session, in UTC and ANSI mode. `root`: the project's folder. `read` is the
    undeclared way to a table: it is recorded as an input of this run, but it is not in the graph."""

    slice: Slice
    slices: tuple[Slice, ...]
    spark: Any
    root: Path
    read: Callable[[str], Frame]


@dataclass(frozen=True)
class Computed:
    """A lazy result: what would be written, from what (by slice label), and what about it may differ next time.

    `read_at` is the version of the task's own target that it reads, if it does; `tables` are all the tables it was
    pinned to; `because` says by label why a slice's inputs are not what they were, where that is known exactly.
    `compared`: the intentions to compare with what is published, where an input is not watched; `not_watched`: what
    the leaves of such inputs are called. `recipe`: see `RunContext.recipe`.
    """

    frame: Frame
    shape: Shape
    leaves: Mapping[str, tuple[Leaf, ...]]
    intentions: Mapping[str, Intention]
    suspicions: tuple[Suspicion, ...]
    read_at: int | None = None
    tables: Mapping[str, Pin] = field(default_factory=dict)
    because: Mapping[str, InputChange] = field(default_factory=dict)
    compared: Mapping[str, Intention] = field(default_factory=dict)
    not_watched: frozenset[str] = frozenset()
    recipe: str | None = None

    def to_compare(self, label: str) -> Intention:
        """What a slice would be published from now, as far as that counts for what is published."""
        return self.compared.get(label, self.intentions[label])

    def leaf_records(self) -> tuple[InputRecord, ...]:
        return tuple(
            InputRecord(label, leaf.kind, leaf.name, leaf.identity, leaf.version)
            for label, mine in self.leaves.items()
            for leaf in mine
        )

    def pin_records(self, slices: Sequence[Slice]) -> tuple[InputRecord, ...]:
        """Up to these versions of its tables the slices are known to be right: the logs say what came after. And by
        which recipe."""
        pinned = [(TABLE, table, pin.id, pin.version) for table, pin in sorted(self.tables.items())]
        made = [] if self.recipe is None else [(RECIPE, "function", self.recipe, None)]
        return tuple(InputRecord(slice_.label, *each) for slice_ in slices for each in (*pinned, *made))


def compute(context: RunContext, task: Task, plan: WritePlan, pins: Pins, window: Window | None = None) -> Computed:
    """The result frame of the write plan's slices (of the window, for an incremental task), not yet evaluated."""
    result = result_frame(context, task, plan.slices, pins, window)
    frame, shape = context.engine.shape(result, task.write.layout(task.scope).slice_column)
    check_columns(task, shape)
    suspicions = context.engine.suspicions(frame)
    beside = (*_outside(context, task, plan.slices, pins, result), *allowed(task, suspicions))
    ignored = pins.not_watched(task)
    before = _leaves_before(context, task, plan) if len(plan.slices) == 1 or ignored else {}
    found = _leaves(context, plan, pins, frame, before)
    leaves = {
        label: not_watched((*mine, *pins.declared_leaves(label), *beside), ignored) for label, mine in found.items()
    }
    code = context.code_hash(task)
    intentions = {label: Intention(code, inputs_hash(mine)) for label, mine in leaves.items()}
    shown = {label: as_published(mine, before.get(label, ()), ignored) for label, mine in leaves.items()}
    compared = {label: Intention(code, inputs_hash(mine)) for label, mine in shown.items()}
    because = {label: why for label, mine in shown.items() if (why := what_changed(mine, before.get(label, ())))}
    tables = {str(table): pin for table, pin in pins.tables.items()}
    return Computed(
        frame,
        shape,
        leaves,
        intentions,
        suspicions,
        pins.version(task.target),
        tables,
        because,
        compared,
        ignored,
        context.recipe(task),
    )


def result_frame(
    context: RunContext,
    task: Task,
    slices: tuple[Slice, ...],
    pins: Pins,
    window: Window | None = None,
    bound: tuple[Slice, ...] | None = None,
) -> Frame:
    """What the task's function returns for these slices, as it is: also what `preview` shows. `bound`: the slices that
    it is said to be of, if others."""
    arguments: dict[str, Any] = {name: open_input(task, name, slices, pins, window) for name in task.inputs}
    if task.takes_run:
        given = bound or slices
        arguments[RUN_PARAMETER] = Run(
            given[-1], given, pins.session, context.root, lambda table: pins.open(TableName.parse(table))
        )
    return _call(task, arguments)


def _leaves(
    context: RunContext, plan: WritePlan, pins: Pins, frame: Frame, before: Mapping[str, Sequence[Leaf]]
) -> Mapping[str, tuple[Leaf, ...]]:
    """Of the query plan, without scans of declared files: what these are, the listing says."""
    if len(plan.slices) == 1:
        label = plan.slices[0].label
        found: Mapping[str, tuple[Leaf, ...]] = {label: context.engine.leaves(frame, before.get(label, ()))}
    else:
        found = context.engine.leaves_of_each(frame, plan.slices, pins.portions)
    return {label: tuple(leaf for leaf in mine if leaf.kind != INPUT_FILES) for label, mine in found.items()}


def _outside(context: RunContext, task: Task, slices: tuple[Slice, ...], pins: Pins, result: Frame) -> tuple[Leaf, ...]:
    """Also of a SQL task: what views and functions of the catalog mean is not in its text. Its parameters are bound to
    its first slice for that, since what they are for another one, or in a batch, follows from the text."""
    if task.sql is None or not task.parameters or not isinstance(task.scope, TimeScope):
        return context.engine.outside(result, pins.cuts, task.function)
    apart = replace(pins, portions=[], cuts=[])
    same = result_frame(context, task, slices, apart, bound=(task.scope.first,))
    return context.engine.outside(same, apart.cuts, task.function)


def allowed(task: Task, suspicions: Sequence[Suspicion]) -> tuple[Leaf, ...]:
    """What the guard lets pass because the task says so may differ on the next run: nothing shows that it does not."""
    return tuple(Leaf(ALLOWED, each.name, None) for each in suspicions if each.name in task.policy.allow)


def _leaves_before(context: RunContext, task: Task, plan: WritePlan) -> dict[str, tuple[Leaf, ...]]:
    """What each published slice was computed from, as far as the ledger remembers."""
    runs = context.ledger.runs_of(task.name, [slice_.label for slice_ in plan.slices])
    published = {label: run.attempt for label, run in runs.items() if run.attempt is not None}
    attempts = {attempt: context.ledger.attempt(attempt) for attempt in published.values()}
    return {
        label: tuple(
            Leaf(held.kind, held.name, held.identity, held.version)
            for held in made.inputs
            if held.label == label and held.kind not in NO_LEAVES
        )
        for label, attempt in published.items()
        if (made := attempts[attempt]) is not None
    }


def refuse_suspicions(task: Task, computed: Computed, where: str) -> None:
    """Stop before anything is written if the query plan is not the same on every run."""
    held = [suspicion for suspicion in computed.suspicions if suspicion.name not in task.policy.allow]
    if not held:
        return
    reasons = "; ".join(f"{s.name} reaches {_columns(s.columns)}: {s.why}" for s in held)
    allow = ", ".join(f'"{name}"' for name in dict.fromkeys(s.name for s in held))
    raise Nondeterministic(
        f"a second run would give another result: {reasons}",
        where=where,
        fix=f"{held[0].fix} Or accept it: policy=Policy(allow=({allow},)).",
    )


def unsure_functions(computed: Computed) -> tuple[str, ...]:
    """Notes on the Python functions in the query plan that may give other values next time."""
    leaves = dict.fromkeys(leaf for mine in computed.leaves.values() for leaf in mine)
    return tuple(
        f"the function {leaf.name}: nothing shows that a second run gives the same rows"
        for leaf in leaves
        if leaf.kind == FUNCTION and leaf.identity is None
    )


def _call(task: Task, arguments: Mapping[str, Any]) -> Frame:
    try:
        return task.function(**arguments)
    except TwiceError:
        raise
    except USER_CODE_FAILS as error:
        line, exits = _innermost(error, task), isinstance(error, SystemExit)
        raise UserCodeError(
            f"the task's own code raised {type(error).__name__}: {_first_line(error)}{line}",
            fix=_NO_EXIT if exits else "Correct the code and run again.",
        ) from error


_NO_EXIT = "Leave out sys.exit(): return a frame, which may be empty, or raise an error."


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "(no message)"


def _innermost(error: BaseException, task: Task) -> str:
    """Where in the user's file, if the traceback passes through it."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if task.source is not None and name == str(task.source):
            found = f" ({task.source.name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _columns(columns: tuple[str, ...]) -> str:
    return ", ".join(columns) if ALL_ROWS in columns else f"column {', '.join(columns)}"


_NO_ORDER = re.compile(r"(array|map|struct|variant|interval|void)\b", re.IGNORECASE)
"""Types of which two values are not simply equal, or neither before nor after each other."""


def check_columns(task: Task, shape: Shape) -> None:
    """Raise DeclarationError for a key, `newest_by` or audit that the result cannot serve."""
    for column in task.write.key:
        _check_plain(_found(shape, column, _option(task, "key", column)), f"the key {column}")
    newest_by = task.write.newest_by
    if newest_by is not None:
        _check_plain(_found(shape, newest_by, _option(task, "newest_by", newest_by)), f"newest_by {newest_by}")
    for audit in task.audits:
        for column in audit.columns:
            _found(shape, column, f"audit.{audit.name}")


def _option(task: Task, option: str, column: str) -> str:
    return f"{task.write.name}({option}={column!r})"


def _found(shape: Shape, name: str, by: str) -> Column:
    for column in shape.columns:
        if column.name.lower() == name.lower():
            return column
    raise DeclarationError(
        f"{by} names a column that the result does not have: {name}",
        fix=f"The result has: {', '.join(column.name for column in shape.columns)}.",
    )


def _check_plain(column: Column, what: str) -> None:
    if _NO_ORDER.match(column.type):
        raise DeclarationError(
            f"{what} is of type {column.type}, whose values cannot be compared and ordered",
            fix="Take a number, a text, a date, a time or a boolean: name a part of it in a column of its own.",
        )


@contextmanager
def naming_rebuild(task: Task) -> Iterator[None]:
    """Columns that cannot be changed in place: what to do about them, by the task's name, where it can be rebuilt."""
    try:
        yield
    except SchemaDrift as error:
        if error.rebuild:
            error.fix = followed_by(error.fix, _rebuild_sentence(task, ", ".join(error.rebuild)))
        raise


def _rebuild_sentence(task: Task, columns: str) -> str:
    how = "every slice is computed into" if why_not_computed(task) is None else "its rows are copied into"
    return (
        f"To change {columns} in the table: twice rebuild {task.name} ({how} a table beside it, which then takes its "
        "place in one commit)."
    )
