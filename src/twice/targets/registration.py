"""How a table system is made known to twice: one `Registration` per target, listed in `wiring/targets.py`.

A registration names no driver at import time: `open` and `check_name` import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from twice.config import Settings
from twice.core.ports import Target
from twice.core.task import TableName

if TYPE_CHECKING:
    from twice.targets.instruments import Instruments

FrameKind = Literal["spark", "rows"]
"""What a target takes and gives: Spark DataFrames, or `targets.memory.rows.Rows`."""


class TableSystem(Protocol):
    """An opened table system: one per format or connection, shared by all runs of this process."""

    def target(self, session: Any) -> Target:
        """For one run's session."""

    def release(self, session: Any) -> None:
        """Close what is open for a run's session. A second call finds nothing."""


@dataclass(frozen=True)
class Opening:
    """What a table system is opened with. `name` is what users write before the colon of a table's name: the format,
    or the name of a connection. `instruments` are the engine's: a target does not import the engine."""

    name: str
    settings: Settings
    instruments: Callable[[], Instruments]


@dataclass(frozen=True)
class Location:
    """Where the tables of a system are, as the ledger names it: `here` within this project (a folder that moves with
    it keeps its history), `known_as` for everybody. Both are stored: the same settings must always give the same.
    `formerly`: names that an earlier twice stored and that must not stay there."""

    here: str
    known_as: str
    formerly: tuple[str, ...] = field(default=(), repr=False)


def _any_name(table: TableName) -> None:
    """One to three parts, which `TableName.parse` has checked."""


@dataclass(frozen=True)
class Registration:
    """`schemes`: of the URLs of its connections; users then write the connection's name before the colon. Without
    schemes it needs no connection, and they write `format`. `check_name` raises DeclarationError for a table name that
    the system cannot have. `folder`: where a table's files are, for a system whose tables a proof can copy by Delta's
    SHALLOW CLONE; None for all others, which a proof says. `reader`: a target that answers what a look asks without an
    engine, and raises NeedsEngine for everything else; None where there is none. It is opened for one command: what it
    has read of a table it need not read again. `probe`: says in a line what answers at a connection, within seconds, or
    raises an error of ours; for `twice doctor`."""

    format: str
    open: Callable[[Opening], TableSystem]
    location: Callable[[Settings, str], Location]
    schemes: tuple[str, ...] = ()
    frames: FrameKind = "spark"
    check_name: Callable[[TableName], None] = _any_name
    folder: Callable[[Settings, TableName], str] | None = None
    probe: Callable[[Settings, str], str] | None = None
    reader: Callable[[Opening], AbstractContextManager[Target]] | None = None
