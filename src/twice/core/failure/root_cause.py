"""One line that says what made a call fail: of an error from a JVM or a Python worker, the one behind it. Pure."""

from __future__ import annotations

from typing import Any

from twice.errors import TwiceError

_DEPTH = 20
_TRACE = "Traceback (most recent call last):"


def root_cause(error: BaseException) -> str:
    """One line: the message of the innermost Java error that has one, since those around it only show the way ("An
    error occurred while calling o31.merge", "Job aborted"). Of an error without Java, its own first line."""
    found = str(error)
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        for _ in range(_DEPTH):
            if thrown is None:
                break
            found = str(thrown.getMessage() or "") or found
            thrown = thrown.getCause()
    except Exception:  # noqa: BLE001 - py4j raises what it likes when its JVM dies: what is known by then must do
        pass
    return (found.strip().splitlines() or ["(no message)"])[0]


def cause_line(error: BaseException) -> str:
    """The first line; of an error from one of Spark's Python workers, the line below its trace; of a call into the JVM,
    what made it fail."""
    lines = str(error).strip().splitlines()
    if _TRACE not in lines:
        return root_cause(error)
    below = [line for line in lines[lines.index(_TRACE) + 1 :] if line.strip() and not line[0].isspace()]
    return below[0] if below else lines[0]


def in_one_line(error: Exception) -> str:
    """What happened, for a note beside something that went on."""
    return error.what if isinstance(error, TwiceError) else f"{type(error).__name__}: {cause_line(error)}"
