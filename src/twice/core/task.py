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
from twice.core.file_input import FileFormat, Files, Missing, SparkSchema, declare_files
from twice.core.param import Param
from twice.core.retry import Retry
from twice.core.scope import Scope
from twice.core.slice import Slice
from twice.core.write import Layout, WriteKind, WriteVerb
from twice.errors import DeclarationError

Rerun = Literal["when_changed", "never", "always"]
"""When a run computes a published slice again."""

Empty = Literal["allow", "refuse"]
"""Whether a result without rows is published."""

UNLESS_DEFAULT = {"hashed": "unless default"}
"""The metadata of a field that came after tasks were published: at its default it is not part of a code hash."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", re.ASCII)
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
    """An input that is a table. With `by`, it is cut to the run's slice on that column, widened by `before`. Without
    `watch`, what changes in it makes no published slice stale."""

    table: TableName
    by: str | None = None
    before: timedelta = timedelta(0)
    watch: bool = field(default=True, metadata=UNLESS_DEFAULT)


Input = Read | Files | Param
"""What a task declares to be given."""


class Reader:
    """Declare an input of a task: a table, `read("shop.orders", by="order_date")`, or files,
    `read.files("landing/{ds}/*.csv", format="csv", schema="id BIGINT, amount DOUBLE")`."""

    def __call__(
        self, table: str, *, by: str | None = None, before: timedelta = timedelta(0), watch: bool = True
    ) -> Read:
        """A table. `by` cuts it to the slice on that column, and `before=days(7)` widens the cut; without `by` the
        whole table counts. With `watch=False` its changes make no published slice stale: a run still reads one version
        of it, and records which."""
        if by == "":
            raise DeclarationError(
                f"read({table!r}, by=''): the column name is empty", fix="Leave out by= for the whole table."
            )
        if before < timedelta(0):
            raise DeclarationError(f"read({table!r}): before={before} is negative", fix="Write before=days(7).")
        if before and by is None:
            raise DeclarationError(f"read({table!r}): before= needs by=", fix="Name the column to cut on with by=.")
        return Read(TableName.parse(table), by, before, watch)

    def files(
        self,
        pattern: str,
        *,
        format: FileFormat,
        schema: str | SparkSchema | None = None,
        options: Mapping[str, str | int | float | bool] | None = None,
        by: str | None = None,
        before: timedelta = timedelta(0),
        missing: Missing = "error",
        path_column: str | None = None,
        watch: bool = True,
    ) -> Files:
        """Files: CSV, JSON, Parquet, ORC, text or XML, as Spark reads them, with its `options`.

        `pattern` is relative to the project's folder; `*`, `?`, `[…]` and `**` stand for names, a folder for all that
        is in it, and its subfolders `column=value` give columns. `{ds}` is the slice's label, `{year}`, `{month}`,
        `{day}`, `{hour}`, `{minute}` are parts of its start, `{start}` and `{end}` its bounds (the end is not
        included): each slice then reads its own files. Without one all files count for every slice, and `by` cuts their
        rows as those of a table. A slice without a file fails, or with `missing="empty"` has no rows. `path_column`
        names a column with the path of each row's file.
        """
        written = schema if schema is None or isinstance(schema, str) else schema.json()
        given = {name: _option_text(value) for name, value in (options or {}).items()}
        return declare_files(Files(pattern, format, written, given, by, before, missing, path_column, watch))


read = Reader()


def _option_text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Policy:
    """`rerun`: when a published slice is computed again. `empty`: may a result be empty. `evolve`: may the
    result add columns to the table. `allow`: what the plan guard may let through, by name (`"rand"`). `retry`: how
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
    inputs: Mapping[str, Input]
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
    sql_file: Path | None = None
    """Of a SQL task: the file of its query."""
    tags: tuple[str, ...] = ()
    """Words by which tasks are chosen together. They say nothing about rows: no code hash has them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def first_name(self) -> str:
        """The name it was first published under: its tokens and the keys of its effects keep it for ever, so that
        a renamed task neither publishes again nor sends its effects again."""
        return self.formerly[0] if self.formerly else self.name

    @property
    def tables(self) -> Mapping[str, Read]:
        """Its inputs that are tables."""
        return {name: source for name, source in self.inputs.items() if isinstance(source, Read)}

    @property
    def files(self) -> Mapping[str, Files]:
        """Its inputs that are files."""
        return {name: source for name, source in self.inputs.items() if isinstance(source, Files)}

    @property
    def params(self) -> Mapping[str, Param]:
        """Its inputs that are values."""
        return {name: source for name, source in self.inputs.items() if isinstance(source, Param)}

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


def tidy_tags(tags: Sequence[str], where: str) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise DeclarationError(
            f"tags={tags!r} must be a list of words, not a string", where=where, fix=f'Write tags=("{tags}",).'
        )
    for tag in tags:
        if not TAG.fullmatch(str(tag)):
            raise DeclarationError(
                f"{tag!r} is not a tag", where=where, fix="Use letters, digits, _ and -, e.g. finance."
            )
    return tuple(dict.fromkeys(tags))
