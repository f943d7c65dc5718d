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
from twice.core.scope import Scope
from twice.core.slice import Slice
from twice.core.write import Layout, WriteKind, WriteVerb
from twice.errors import DeclarationError

Rerun = Literal["when_changed", "never", "always"]
"""When a run computes a published slice again."""

Empty = Literal["allow", "refuse"]
"""Whether a result without rows is published."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
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
        well_formed = 1 <= len(parts) <= 3 and all(NAME.fullmatch(part) for part in parts)
        if not well_formed or (colon and not NAME.fullmatch(format_)):
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
        raise DeclarationError(
            f"read({table!r}, by=''): the column name is empty", fix="Leave out by= for the whole table."
        )
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
            raise DeclarationError(
                f"allow={allow!r} must be a list of names, not a string", fix=f'Write allow=("{allow}",).'
            )


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


def tidy_audits(audits: Sequence[Audit], where: str) -> tuple[Audit, ...]:
    names = [audit.name for audit in audits]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"the audit {name} is declared twice", where=where, fix="Give one another name=.")
    return tuple(audits)
