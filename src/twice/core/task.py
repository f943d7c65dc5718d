"""A task: a declared function that turns input frames into one result frame, and what it owns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from twice.core.audit import Audit
from twice.core.effect import Effect
from twice.core.retry import Retry
from twice.core.scope import Scope, Whole
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.time_scope import TimeScope
from twice.core.write import Layout, WriteKind, WriteVerb
from twice.errors import DeclarationError

Rerun = Literal["when_changed", "never", "always"]
"""When a run computes a published slice again."""

Empty = Literal["allow", "refuse"]
"""Whether a result without rows is published."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
RUN_PARAMETER = "run"


@dataclass(frozen=True, order=True)
class TableName:
    """`shop.revenue_daily`, with the table system it lives in (None: the profile's default)."""

    name: str
    format: str | None = None

    def __str__(self) -> str:
        return f"{self.format}:{self.name}" if self.format else self.name

    def located(self, default: str) -> TableName:
        """One spelling for one table: without its table system where that is the default one."""
        return TableName(self.name, None if self.format == default else self.format)

    @classmethod
    def parse(cls, text: str) -> TableName:
        format_, colon, name = text.rpartition(":")
        parts = name.split(".")
        well_formed = 1 <= len(parts) <= 3 and all(_NAME.fullmatch(part) for part in parts)
        if not well_formed or (colon and not _NAME.fullmatch(format_)):
            raise DeclarationError(
                f"{text!r} is not a table name",
                fix="Use letters, digits and _ in one to three parts, e.g. shop.orders or delta:shop.orders.",
            )
        return cls(name, format_ or None)


@dataclass(frozen=True)
class Read:
    """An input. With `by`, it is cut to the run's slice on that column, widened by `before`."""

    table: TableName
    by: str | None = None
    before: timedelta = timedelta(0)


def read(table: str, *, by: str | None = None, before: timedelta = timedelta(0)) -> Read:
    """Declare an input: `read("shop.orders", by="order_date")`. Without `by` the whole table counts."""
    if by == "":
        raise DeclarationError(f"read({table!r}, by='') names no column", fix="Leave out by= for the whole table.")
    if before < timedelta(0):
        raise DeclarationError(f"read({table!r}): before={before} is negative", fix="Write before=days(7).")
    if before and by is None:
        raise DeclarationError(f"read({table!r}): before= needs by=", fix="Name the column to cut on with by=.")
    return Read(TableName.parse(table), by, before)


@dataclass(frozen=True)
class Policy:
    """`rerun`: when a published slice is computed again. `empty`: may a result be empty. `evolve`: may the
    result add columns to the table. `allow`: what the plan guard shall let pass, by name (`"rand"`). `retry`: how
    often a transient error is tried again."""

    rerun: Rerun = "when_changed"
    retry: Retry = field(default_factory=Retry)
    empty: Empty = "allow"
    evolve: bool = False
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rerun not in get_args(Rerun):
            raise DeclarationError(f"rerun={self.rerun!r} is not known", fix=f"Known: {', '.join(get_args(Rerun))}.")
        if self.empty not in get_args(Empty):
            raise DeclarationError(f"empty={self.empty!r} is not known", fix=f"Known: {', '.join(get_args(Empty))}.")
        allow: object = self.allow
        if isinstance(allow, str):
            raise DeclarationError(f"allow={allow!r} is a text, not several names", fix=f'Write allow=("{allow}",).')


class Strategy(Protocol):
    """How a task writes. Pure: it compiles slices to a write verb and never touches a table."""

    @property
    def name(self) -> str: ...

    @property
    def restatable(self) -> bool:
        """Whether a published slice can be computed again. What is not must stay as it was published."""

    @property
    def kind(self) -> WriteKind:
        """Of the verb that it compiles to."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are matched by; empty where they are not matched."""

    @property
    def newest_by(self) -> str | None:
        """The column that decides which of two rows of a key is kept."""

    def check(self, scope: Scope, policy: Policy) -> None:
        """Raise DeclarationError where this strategy cannot keep its promise on such a scope."""

    def layout(self, scope: Scope) -> Layout:
        """What the target must look like."""

    def compile(self, slices: tuple[Slice, ...]) -> WriteVerb: ...


@dataclass(frozen=True, eq=False)
class Task:
    """Everything about one task that is known without running it. Calling it calls the plain function."""

    name: str
    target: TableName
    scope: Scope
    inputs: Mapping[str, Read]
    write: Strategy
    function: Callable[..., Any]
    audits: tuple[Audit, ...] = ()
    effects: tuple[Effect, ...] = ()
    policy: Policy = field(default_factory=Policy)
    formerly: tuple[str, ...] = ()
    sql: str | None = None
    parameters: tuple[str, ...] = ()
    """Of a SQL task: the named parameters of its query, such as `start`."""
    source: Path | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def first_name(self) -> str:
        """The name it was first published under: its tokens and the keys of its effects keep it for ever, so that
        a renamed task neither publishes again nor sends its effects again."""
        return self.formerly[0] if self.formerly else self.name

    @property
    def takes_run(self) -> bool:
        """Whether the function has a parameter `run` for the run itself."""
        return RUN_PARAMETER not in self.inputs and RUN_PARAMETER in inspect.signature(self.function).parameters

    @property
    def asks_for_slice(self) -> bool:
        """Whether its code can know one slice from another, beside the inputs that are cut to it."""
        return bool(self.parameters) if self.sql is not None else self.takes_run


def check_task(task: Task) -> None:
    """What must hold of any task, checked where it is declared."""
    if not _NAME.fullmatch(task.name):
        raise DeclarationError(
            f"{task.name!r} is not a task name", fix="Use letters, digits and _, e.g. revenue_daily."
        )
    for old in task.formerly:
        if not _NAME.fullmatch(old):
            raise DeclarationError(f"formerly={old!r} is not a task name", where=task.name)
    _check_called(task)
    _check_parameters(task)
    for name, source in task.inputs.items():
        if source.by is not None and isinstance(task.scope, Whole):
            raise DeclarationError(
                f"input {name} is cut by {source.by}, but a Whole() task has no slice to cut it to",
                where=task.name,
                fix="Leave out by=.",
            )
    if task.parameters and not isinstance(task.scope, TimeScope):
        raise DeclarationError(
            f"the query asks for :{task.parameters[0]}, and {type(task.scope).__name__}(…) has no slice that begins "
            "and ends",
            where=task.name,
            fix="Leave it out: an input with by= is already cut.",
        )
    if isinstance(task.scope, TimeScope) and task.scope.batch and "ds" in task.parameters:
        raise DeclarationError(
            "batch=True says that the query is right for several slices at once, but it takes :ds, the label of one",
            where=task.name,
            fix="Cut by :start and :end (or by the slice column), or leave out batch=True.",
        )
    if isinstance(task.scope, Since):
        _check_cursor(task, task.scope)
        mute = [effect.name for effect in task.effects if effect.again == "never"]
        if mute:
            raise DeclarationError(
                f"the effect {mute[0]} would be sent once and never again: an incremental task has one slice for ever",
                where=task.name,
                fix='Say again="on_restate": then it is sent for every publish.',
            )
    try:
        task.write.check(task.scope, task.policy)
    except DeclarationError as error:
        error.at(task.name)
        raise
    if task.write.kind == "append":
        _check_appended(task)


def _check_called(task: Task) -> None:
    """`write=replace` and `scope=Daily` are easily written, and neither is a strategy or a scope yet."""
    if not isinstance(task.scope, get_args(Scope)):
        raise DeclarationError(
            f"scope={_written(task.scope)} is not a scope",
            where=task.name,
            fix='Write scope=Daily("order_date", start="2026-01-01"), scope=Whole() or another scope.',
        )
    if isinstance(task.write, type) or not hasattr(task.write, "compile"):
        raise DeclarationError(
            f"write={_written(task.write)} is not a strategy",
            where=task.name,
            fix='Write write=replace(), merge("key", newest_by="…"), insert_new("key") or append_once().',
        )


def _written(value: object) -> str:
    return str(getattr(value, "__name__", repr(value)))


def _check_appended(task: Task) -> None:
    """Without a key, nothing but the cut of its inputs keeps one slice's rows apart from another's."""
    cut = any(source.by is not None for source in task.inputs.values())
    if isinstance(task.scope, TimeScope) and not cut and not task.asks_for_slice:
        raise DeclarationError(
            "no input is cut to the slice, so append_once() would add the same rows for every slice",
            where=task.name,
            fix='Cut one, read("…", by="event_date"), or append the whole table once: scope=Whole().',
        )
    _refuse_not_shrunk(task, "append_once() writes it only once")


def _check_cursor(task: Task, scope: Since) -> None:
    """One input is read from the mark on; the upper bound is read from it too, so it must be known which."""
    cut = [name for name, source in task.inputs.items() if source.by is not None]
    if len(cut) != 1 or task.inputs[cut[0]].by != scope.cursor:
        raise DeclarationError(
            f"Since({scope.cursor!r}) needs exactly one input that is cut by {scope.cursor}, "
            f"and {', '.join(cut) or 'no input'} is cut",
            where=task.name,
            fix=f'Write read("…", by="{scope.cursor}") for the input with the cursor, and no by= for the others.',
        )
    if task.inputs[cut[0]].before:
        raise DeclarationError(
            "before= has no meaning on Since(…): the mark says where reading begins",
            where=task.name,
            fix="Leave it out; lag= on the scope waits for late rows.",
        )
    if task.policy.rerun != "when_changed":
        raise DeclarationError(
            f'rerun="{task.policy.rerun}" has no meaning on Since(…): every run goes on from the mark',
            where=task.name,
            fix="Leave it out. To read rows again, set the mark back: twice mark reset.",
        )
    _refuse_not_shrunk(task, "every run of Since(…) reads other rows")


def _refuse_not_shrunk(task: Task, why: str) -> None:
    for audit in task.audits:
        if audit.kind == "not_shrunk":
            raise DeclarationError(
                f"audit.{audit.name} compares a slice with what it held before, and {why}",
                where=task.name,
                fix="Leave it out; audit.rows(at_least=…) says how many there must be.",
            )


def _check_parameters(task: Task) -> None:
    """Inputs and parameters match by name; otherwise the first call would be the first to notice."""
    parameters = inspect.signature(task.function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    wanted = {n for n, p in parameters.items() if p.default is inspect.Parameter.empty} - {RUN_PARAMETER}
    missing, unknown = sorted(wanted - set(task.inputs)), sorted(set(task.inputs) - set(parameters))
    if missing:
        raise DeclarationError(
            f"the function takes {', '.join(missing)}, which inputs= does not declare",
            where=task.name,
            fix=f'Add inputs={{"{missing[0]}": read("…")}}.',
        )
    if unknown:
        raise DeclarationError(
            f"inputs= declares {', '.join(unknown)}, which the function does not take",
            where=task.name,
            fix="Give the function a parameter of that name.",
        )


def tidy_audits(audits: Sequence[Audit], where: str) -> tuple[Audit, ...]:
    names = [audit.name for audit in audits]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"the audit {name} is declared twice", where=where, fix="Give one another name=.")
    return tuple(audits)
