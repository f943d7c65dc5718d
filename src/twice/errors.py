"""The whole error tree.

    TwiceError                      every error twice raises on purpose
    ├── UsageError                  the command or call is wrong                             exit 2
    │   └── BeforeStart             the slice is before the first one that the task has
    ├── DeclarationError            a task, a project or its configuration is wrong          exit 2
    │   ├── TableTaken              the table is another task's, or appended to under another scope
    │   └── LayoutDiffers           the table is partitioned otherwise than the task's slices need
    ├── SliceBusy                   another attempt holds the lease of this slice            exit 3
    ├── EnvironmentProblem          Java, jars, Spark or the ledger cannot be used here      exit 4
    │   └── LedgerOutOfReach        the ledger's server went away, or never answered
    ├── EffectRefused               an effect was surely not carried out; your function may say so  exit 1
    ├── BodyDiffers                 a known id came with another body                        exit 1
    └── RunError                    one run of one task failed                               exit 1
        ├── UserCodeError           the task's own code raised
        ├── InputMissing            an input does not exist or cannot be read
        ├── ResultRefused           the result may not be written as it is
        │   ├── Nondeterministic    the plan gives another result on the next run
        │   ├── SchemaDrift         the result's columns are not the table's
        │   ├── RowsOutsideSlice    rows that do not belong to the slice (or have no slice)
        │   ├── NullKey             rows to merge without a key
        │   └── EmptyRefused        an empty result, where the task says `empty="refuse"`
        ├── AuditFailed             staged rows did not pass; they were never visible
        ├── StageMismatch           what was staged is not what was computed
        │   ├── StageLost           staged rows are gone before they were published
        │   ├── TableChanged        others changed a table in between, or what it was read through is gone
        │   └── FileChanged         an input file changed while it was read
        ├── Superseded              another attempt landed first, with another intention or without rows
        ├── LeaseLost               this attempt was too slow and stops before publishing
        ├── Quarantined             every retry failed: it waits for a person (twice retry)  exit 5
        └── OutcomeUnknown          the commit's reply was lost and the target cannot be read
            └── NotRecorded         landed, and not in the ledger yet: the next look records it

    KeyboardInterrupt               Python's own: a person or a machine asked the process to end
    └── Interrupted                 the same, with what is now true of the table              exit 130, 143

Each error says four things, in this order: what happened, to which task and slice (`where`), what is now
true of the table (`now`), and what to do next (`fix`). The message is computed from these fields.
Normal negative outcomes (an audit's result, a lint finding) are values; only the boundary raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

UNCHANGED = "The table is unchanged."
OTHER_SCOPE = (
    "Use the scope it was published with. If the old and the new slices share no row, rename the task (without "
    'formerly=) and let the new name take the table over: twice takeover NAME --reason "…".'
)
HOLDS = "The table holds the new rows."
MAY_HOLD = "The table may already hold these rows."
MOVED = "The mark is moved."
MAY_BE_MOVED = "The mark may already be moved."


class Hint(str):
    """A sentence for two kinds of callers, made by `core.hints.hint`. As text it names the options of the command line,
    as it is printed there and stored; `python` is the same sentence with the arguments of the Python API."""

    python: str

    def __new__(cls, text: str, python: str) -> Hint:
        made = super().__new__(cls, text)
        made.python = python
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.python


SEE_TRACE = Hint("Run it again with --debug to see the whole trace.", "The whole trace is that of its __cause__.")


def followed_by(text: str, more: str) -> str:
    """One more sentence after a text, which stays a hint if it was one."""
    if isinstance(text, Hint):
        return Hint(f"{text} {more}", f"{text.python} {more}")
    return f"{text} {more}".strip()


class TwiceError(Exception):
    """Raised on purpose. `str()` gives one paragraph a person can act on; `details()` the same as data: `code`, `what`,
    `where`, `now`, `fix`, which are attributes too. `exit_code` is how the command line would end. `results`: of a call
    for several slices, the runs that ended well."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    results: tuple[Any, ...] = ()

    def __init__(self, what: str, *, where: str = "", now: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.now = now
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return " ".join(part for part in (_sentence(head), self.now, self.fix) if part)

    def details(self) -> dict[str, str]:
        """The message as data, for `--output json`."""
        parts = {"what": self.what, "where": self.where, "now": self.now, "fix": self.fix}
        return {"code": self.code, **{name: str(part) for name, part in parts.items()}}

    def at(self, where: str) -> TwiceError:
        """The same error with where it happened (only if it had none)."""
        self.where = self.where or where
        return self

    def reword(self, words: Callable[[str], str]) -> None:
        """As the caller would say it, from here on: what to do next, and what was asked for."""
        self.what = self.what.python if isinstance(self.what, Hint) else self.what
        self.fix = words(self.fix)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


class UsageError(TwiceError):
    code = "usage"
    exit_code = 2


class BeforeStart(UsageError):
    """The slice is before the first one that the task has."""


class DeclarationError(TwiceError):
    code = "declaration"
    exit_code = 2


class TableTaken(DeclarationError):
    code = "table-taken"


class LayoutDiffers(DeclarationError):
    """The table is partitioned otherwise than the task's slices need."""


class SliceBusy(TwiceError):
    code = "busy"
    exit_code = 3


class EnvironmentProblem(TwiceError):
    code = "environment"
    exit_code = 4


class LedgerOutOfReach(EnvironmentProblem):
    code = "ledger-out-of-reach"


class EffectRefused(TwiceError):
    """Raised by a function given to `call`: surely nothing happened. `for_good`: the same again would fail again."""

    code = "effect-refused"

    def __init__(self, what: str, *, for_good: bool = False, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.for_good = for_good
        self.retry_after = retry_after


class BodyDiffers(TwiceError):
    code = "body-differs"


class RunError(TwiceError):
    code = "run"

    def __init__(self, what: str, *, where: str = "", now: str = UNCHANGED, fix: str = "") -> None:
        super().__init__(what, where=where, now=now, fix=fix)


class UserCodeError(RunError):
    code = "user-code"


class InputMissing(RunError):
    code = "input-missing"


class ResultRefused(RunError):
    code = "result-refused"


class Nondeterministic(ResultRefused):
    code = "nondeterministic"


class SchemaDrift(ResultRefused):
    """`rebuild`: the columns that cannot be changed in place."""

    code = "schema-drift"
    rebuild: tuple[str, ...] = ()


class RowsOutsideSlice(ResultRefused):
    code = "rows-outside-slice"


class NullKey(ResultRefused):
    code = "null-key"


class EmptyRefused(ResultRefused):
    code = "empty-refused"


class AuditFailed(RunError):
    code = "audit-failed"


class StageMismatch(RunError):
    code = "stage-mismatch"


class StageLost(StageMismatch):
    code = "stage-lost"


class TableChanged(StageMismatch):
    """It comes from outside: a new attempt starts from the beginning, and no person has to look at the slice."""

    code = "table-changed"


class FileChanged(StageMismatch):
    """It comes from outside: a new attempt lists the files again, and no person has to look at the slice."""

    code = "file-changed"


class Superseded(RunError):
    code = "superseded"


class LeaseLost(RunError):
    code = "lease-lost"


class Quarantined(RunError):
    code = "quarantined"
    exit_code = 5


class OutcomeUnknown(RunError):
    code = "outcome-unknown"


class NotRecorded(OutcomeUnknown):
    code = "not-recorded"


class Interrupted(KeyboardInterrupt):
    """Asked to end, and ended in order. Not a TwiceError: no `except Exception` may swallow it. `error` says what is
    now true of the table and what to do next; `exit_code` which signal it was."""

    def __init__(self, error: TwiceError, exit_code: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.exit_code = exit_code

    def __str__(self) -> str:
        return str(self.error)
