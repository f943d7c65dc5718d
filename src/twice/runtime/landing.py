"""What a process knows of its attempt's one commit, and what it must do with that before it may end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from twice.core.interruption import uninterrupted
from twice.core.ports import Landed, Target
from twice.core.record import Facts
from twice.core.task import TableName
from twice.errors import HOLDS, MAY_HOLD, NotRecorded, OutcomeUnknown, TwiceError
from twice.ledgers.store import Ledger

_LOOKS_FIRST = "Run it again: it will look first."


class Known(Enum):
    NOT_SENT = "nothing was sent to the target"
    UNKNOWN = "the commit may land, or may have landed"
    NOT_LANDED = "the target says that nothing of it landed, and nothing will"
    LANDED = "it is in the table, and the ledger does not know"
    RECORDED = "it is in the table, and the ledger knows"


@dataclass
class Landing:
    """Moves forward only. Whatever ends the attempt, `known` says what may be said of the table, and whether the
    attempt's staged rows and prepared effects may be given up."""

    ledger: Ledger
    attempt: str
    where: str
    known: Known = Known.NOT_SENT
    facts: Facts = field(default_factory=Facts)
    generations: Mapping[str, int] = field(default_factory=dict)
    unrecorded: Exception | None = None

    @property
    def absent(self) -> bool:
        """Is it certain that the table holds nothing of this attempt, now and later?"""
        return self.known in (Known.NOT_SENT, Known.NOT_LANDED)

    def landed(self, facts: Facts, generations: Mapping[str, int]) -> None:
        """The target says so. `facts` is what the ledger is to be told."""
        self.facts, self.generations, self.known = facts, generations, Known.LANDED

    def record(self) -> None:
        """Tell the ledger. Dying in here leaves it behind the target, and the attempt open: the next look brings it
        up. A second call changes nothing."""
        try:
            with uninterrupted():
                self.ledger.publish(self.attempt, self.facts, generations=self.generations)
                self.known = Known.RECORDED
        except Exception as error:
            self.unrecorded = error
            raise

    def settle(self) -> None:
        """Before the attempt ends badly: what is known to have landed is recorded, if the ledger was not asked yet.
        Never raises: `known` says how it went."""
        if self.known is Known.LANDED and self.unrecorded is None:
            with suppress(Exception):
                self.record()

    def judged(self, error: TwiceError) -> TwiceError:
        """The error with a true sentence about the table. One that leaves the attempt open is an OutcomeUnknown."""
        if self.known is Known.RECORDED:
            error.now = HOLDS
            return error
        if self.known is Known.LANDED:
            why = self.unrecorded
            said = why.what if isinstance(why, TwiceError) else f"{type(why).__name__}: {why}" if why else error.what
            return NotRecorded(
                f"the rows are published, but the ledger could not be told: {said}",
                where=self.where,
                now=HOLDS,
                fix=f"{_LOOKS_FIRST} It then records the publish and sends what is to be said of it.",
            )
        if self.known is Known.UNKNOWN and not isinstance(error, OutcomeUnknown):
            return OutcomeUnknown(
                f"{error.what}, while it was being published", where=self.where, now=MAY_HOLD, fix=_LOOKS_FIRST
            )
        return error


def find_landed(target: Target, table: TableName, aims: Mapping[str, int], attempt: str) -> Landed | None:
    """Ask the table whether the attempt's commit is in it; `aims` are the generations it would have given. Only a
    commit that has ended may be asked about: None then means never. Raises what stops it from reading."""
    app, aim = next(iter(aims.items()))
    note = target.provenance(table, app, aim)
    if note is None or note.attempt != attempt:
        return None
    assert note.version is not None, app
    return Landed(note.version, note.changes, note.changed)
