"""What a process knows of its attempt's one commit, and what it must do with that before it may end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from twice.core.closed import assert_never
from twice.core.failure.failpoints import Crash
from twice.core.failure.interruption import uninterrupted
from twice.core.ledger.record import Facts
from twice.errors import HOLDS, MAY_HOLD, NotRecorded, OutcomeUnknown, TwiceError

LOOKS_FIRST = "Run it again: it will look first."


class Known(Enum):
    NOT_SENT = "nothing was sent to the target"
    UNKNOWN = "the commit may land, or may have landed"
    NOT_LANDED = "the target says that nothing of it landed, and nothing will"
    LANDED = "it is in the table, and the ledger does not know"
    RECORDED = "it is in the table, and the ledger knows"


@dataclass(frozen=True)
class Wording:
    """What a commit does, in the words of a message: by default it publishes rows."""

    landed: str = "published"
    done: str = "the rows are published"
    doing: str = "it was being published"
    holds: str = HOLDS
    may_hold: str = MAY_HOLD
    next_look: str = "It then records the publish and sends its effects."


ROWS = Wording()


@dataclass
class Landing:
    """Moves forward only. Whatever ends the attempt, `known` is what is true of the table, and whether the
    attempt's staged rows and prepared effects may be given up. `write` records in the ledger what landed. `staging`:
    the target was asked to stage something, so something may be left. `unused` deletes what was staged and is not part
    of what landed, where the target had no time for it."""

    where: str
    write: Callable[[Facts, Mapping[str, int]], None]
    wording: Wording = ROWS
    known: Known = Known.NOT_SENT
    staging: bool = False
    facts: Facts = field(default_factory=Facts)
    generations: Mapping[str, int] = field(default_factory=dict)
    unrecorded: Exception | None = None
    unused: Callable[[], object] | None = None

    @property
    def absent(self) -> bool:
        """Is it certain that the table holds nothing of this attempt, now and later?"""
        return self.known in (Known.NOT_SENT, Known.NOT_LANDED)

    def landed(self, facts: Facts, generations: Mapping[str, int]) -> None:
        """The target says so. `facts` is what the ledger records of it."""
        self.facts, self.generations, self.known = facts, generations, Known.LANDED

    def record(self) -> None:
        """Record it in the ledger. Dying in here leaves it behind the target, and the attempt open: the next look
        brings it up. A second call changes nothing."""
        try:
            with uninterrupted():
                self.write(self.facts, self.generations)
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

    def remove_unused(self) -> None:
        """Once it is recorded: it may wait long for the table's lock, and until then everybody waits for the record. A
        published attempt is not looked through again, so dying in here leaves the files to VACUUM; what is not
        recorded is left to the look that records it. No error of it hides how the attempt ended."""
        unused, self.unused = self.unused, None
        if unused is not None and self.known is Known.RECORDED:
            with suppress(Exception):
                unused()

    def final_error(self, error: TwiceError) -> TwiceError:
        """The error with a true sentence about the table. One that leaves the attempt open is an OutcomeUnknown."""
        match self.known:
            case Known.NOT_SENT | Known.NOT_LANDED:
                return error
            case Known.RECORDED:
                error.now = self.wording.holds
                return error
            case Known.LANDED:
                return self._not_recorded(error)
            case Known.UNKNOWN:
                return self._unknown(error)
            case _:
                assert_never(self.known)

    def _not_recorded(self, error: TwiceError) -> NotRecorded:
        why = self.unrecorded
        reason = why.what if isinstance(why, TwiceError) else f"{type(why).__name__}: {why}" if why else error.what
        return NotRecorded(
            f"{self.wording.done}, but the ledger could not record it: {reason}",
            where=self.where,
            now=self.wording.holds,
            fix=f"{LOOKS_FIRST} {self.wording.next_look}",
        )

    def _unknown(self, error: TwiceError) -> OutcomeUnknown:
        if isinstance(error, OutcomeUnknown):
            error.now = self.wording.may_hold
            return error
        return OutcomeUnknown(
            f"{error.what}, while {self.wording.doing}", where=self.where, now=self.wording.may_hold, fix=LOOKS_FIRST
        )


@contextmanager
def settling(landing: Landing) -> Iterator[Landing]:
    """Around a commit that is no attempt's: what has landed is recorded, whatever ends it, and every failure has a true
    sentence about the table. Dying in here has landed or not, as the table says; the record may be missing."""
    try:
        yield landing
    except BaseException as error:
        if isinstance(error, Crash):
            raise
        landing.settle()
        if not isinstance(error, TwiceError):
            raise
        failure = landing.final_error(error.at(landing.where))
        if failure is error:
            raise
        raise failure from error
